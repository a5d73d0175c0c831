// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <span>

#include "link/packet_burst.h"
#include "udp/packet_control.h"
#include "udp/socket_address.h"

namespace verbatim::link {

/// The buffers for the packets that one system call takes from one socket. Trains that the kernel
/// has kept together stay together (UDP GRO).
class TrainReceiver {
 public:
  static constexpr std::size_t kMessages = 8;  // per system call, at most
  static constexpr std::size_t kMessageOctets = std::size_t{64} << 10;

  TrainReceiver() noexcept;

  /// Takes packets that have arrived at `socket`, without waiting. `destination` is the address
  /// that the socket is bound to. The result is valid until the next call.
  [[nodiscard]] std::span<const Incoming> receive(int socket, const wire::Gid& destination,
                                                  LinkCounters& counters) noexcept;

 private:
  std::size_t wanted_ = 1;  // messages that the next call asks for
  std::array<mmsghdr, kMessages> messages_{};
  std::array<iovec, kMessages> parts_{};
  std::array<SocketAddress, kMessages> names_{};
  std::array<Control, kMessages> controls_;
  std::array<Incoming, kMessages> received_{};
  alignas(64) std::array<std::array<std::byte, kMessageOctets>, kMessages> buffers_;
};

}  // namespace verbatim::link
