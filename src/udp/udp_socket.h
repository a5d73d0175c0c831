// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "udp/steering.h"
#include "wire/headers/ids.h"

namespace verbatim::link {

/// A local address that packets leave from and arrive at, or a multicast group.
struct LocalAddress {
  wire::Gid gid{};
  std::uint32_t scope = 0;  // interface index, for link-local IPv6 and for groups

  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

/// A UDP socket of RoCEv2, for one of its two uses. Owns the descriptor, which does not block and
/// is closed on exec.
class UdpSocket {
 public:
  /// The settings that a sending socket gives its packets. Other settings must be passed with each
  /// message, and the kernel then looks up the route for each message.
  struct PacketSettings {
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
  };

  UdpSocket() noexcept = default;
  UdpSocket(UdpSocket&& other) noexcept = default;
  UdpSocket& operator=(UdpSocket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;
  ~UdpSocket() = default;

  /// Receives on `port`, shared with the other processes of this user. The kernel gives a packet to
  /// the socket that was bound as the n-th, where n is the result of the steering program, and to
  /// any of the sockets when there are fewer. Only the socket that makes a program necessary brings
  /// it (kBring). Later ones find it (kFind): theirs would replace a program that has all routes.
  enum class Program : std::uint8_t { kBring, kFind };
  [[nodiscard]] static Expected<UdpSocket> open_receiver(
      const LocalAddress& address, std::uint16_t port, Program program = Program::kBring) noexcept;
  /// The same with a filter that no process can change or remove, from before the socket is bound.
  [[nodiscard]] static Expected<UdpSocket> open_locked(const LocalAddress& address,
                                                       std::uint16_t port,
                                                       std::span<sock_filter> filter) noexcept;
  /// Sends from `port` and receives nothing. Over IPv4 "don't fragment" is set and the
  /// identification is 0, which the kernel does for sockets that are not connected.
  [[nodiscard]] static Expected<UdpSocket> open_sender(const LocalAddress& address,
                                                       std::uint16_t port) noexcept;

  /// Changes the settings of a sending socket. False when the system refused one of them; it may
  /// have taken the other.
  [[nodiscard]] bool change_settings(const PacketSettings& settings, bool is_ipv4) noexcept;

  /// From now on packets of one flow that came together are read together (UDP GRO), together with
  /// the length of one packet. False if the system cannot do that.
  [[nodiscard]] bool keep_trains() noexcept;

  /// From now on traffic class and hop limit are read with each packet, or no longer. Reading them
  /// costs a tenth of a microsecond per packet, and only receivers of datagrams and captures need
  /// them.
  [[nodiscard]] bool tell_headers(const LocalAddress& address, bool tell) noexcept;

  /// Receives packets to a multicast group on the interface that `group` names. Every socket of the
  /// group, in every process, gets a copy, also of packets that this host sends.
  [[nodiscard]] static Expected<UdpSocket> open_group(const LocalAddress& group,
                                                      std::uint16_t port) noexcept;

  /// Takes over a descriptor of such a socket that another part of the process has made.
  [[nodiscard]] static UdpSocket adopt(int descriptor) noexcept;
  /// Gives the descriptor away.
  [[nodiscard]] int release() noexcept { return descriptor_.release(); }

  /// Sets the options as open_receiver() leaves them: the process that had the socket before may
  /// have changed them.
  void reset_receiver(const LocalAddress& address) noexcept;
  /// Replaces the program that steers packets to this socket and all that share its port. If the
  /// system takes no program, packets reach any of the sockets and must be forwarded.
  bool steer(std::span<const ServiceRoute> routes, std::uint32_t fallback = 0);

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

 private:
  [[nodiscard]] Status create(const LocalAddress& address) noexcept;
  [[nodiscard]] Status bind_to(const LocalAddress& address, std::uint16_t port) noexcept;
  [[nodiscard]] bool set(int level, int option, int value) noexcept;
  void enlarge(int forced, int ordinary, int octets) noexcept;
  [[nodiscard]] bool join(const LocalAddress& group) noexcept;
  [[nodiscard]] bool prepare_receiver(const LocalAddress& address) noexcept;

  host::OwnDescriptor descriptor_;
};

/// The same, through any of the sockets that share the port.
bool steer_sockets_beside(int socket, std::span<const ServiceRoute> routes,
                          std::uint32_t fallback = 0);

/// A local address and the socket on port 4791 that receives the packets for this process there.
struct ReceivingSocket {
  LocalAddress address{};
  UdpSocket socket;
};

}  // namespace verbatim::link
