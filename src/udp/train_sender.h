// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "link/burst.h"
#include "udp/packet_control.h"
#include "udp/socket_address.h"
#include "udp/udp_socket.h"

namespace verbatim::link {

/// Sends bursts through sockets. A train passes through the kernel as one message, which is divided
/// into packets where it leaves the host (UDP GSO). The kernel numbers these packets from 0. All
/// trains that leave from one socket go with one system call.
class TrainSender {
 public:
  /// The socket that a train leaves from, its own settings, and the interface of the address.
  struct Exit {
    int socket = -1;  // -1: the train cannot leave
    std::uint32_t scope = 0;
    UdpSocket::PacketSettings settings{};
  };

  [[nodiscard]] static UdpSocket::PacketSettings settings_of(const Outgoing& to) noexcept {
    const std::uint8_t hop_limit =
        to.hop_limit != 0 ? to.hop_limit : UdpSocket::PacketSettings{}.hop_limit;
    return {.traffic_class = to.traffic_class, .hop_limit = hop_limit};
  }

  /// Sends each train through its exit. Packets that leave from one socket keep their order;
  /// different sockets are different flows. If the kernel cannot send trains, the burst makes none
  /// from now on. The contents of the exits are undefined afterwards.
  void send(Burst& burst, std::span<Exit> exits, LinkCounters& counters) noexcept;

 private:
  /// A train and its exit.
  struct Chosen {
    Burst::Train* train = nullptr;
    Exit exit{};
  };

  void address(msghdr& message, const Chosen& chosen, SocketAddress& name, Control& room) noexcept;
  void send_from(int socket, Burst& burst, std::span<Exit> exits, LinkCounters& counters) noexcept;
  [[nodiscard]] bool wait_writable(int socket) noexcept;
  void send_apart(const Chosen& chosen, Burst& burst, LinkCounters& counters) noexcept;

  bool waited_ = false;  // for this burst

  // The messages of a burst that leave from one socket.
  std::array<mmsghdr, Burst::kTrains> messages_{};
  std::array<iovec, Burst::kTrains> parts_{};
  std::array<SocketAddress, Burst::kTrains> names_;
  std::array<Control, Burst::kTrains> controls_;
  std::array<Chosen, Burst::kTrains> chosen_{};
};

}  // namespace verbatim::link
