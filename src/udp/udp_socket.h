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

/// One local address that packets leave from and arrive at; or a group that they arrive for.
struct LocalAddress {
  wire::Gid gid{};
  std::uint32_t scope = 0;  // interface index, for link-local IPv6 and for groups

  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

/// A UDP socket of RoCEv2, for one of its two uses. Owns the descriptor, which does not block and
/// is closed on exec.
class UdpSocket {
 public:
  /// What a sending socket gives a packet by itself. For another one the kernel has to be told
  /// beside every message, and then looks everything up anew.
  struct Manner {
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

  /// Receives on `port`, shared with the other processes of this user: the kernel gives a packet to
  /// the n-th socket that was bound, n being what the steering program makes of it, and to any of
  /// them when there are not so many.
  /// The program is there before there is a choice: who brings it would otherwise replace what has
  /// all routes in it.
  enum class Program : std::uint8_t { kBring, kFind };
  [[nodiscard]] static Expected<UdpSocket> open_receiver(
      const LocalAddress& address, std::uint16_t port, Program program = Program::kBring) noexcept;
  /// The same with a filter that no process can change or remove, from before the socket is bound.
  [[nodiscard]] static Expected<UdpSocket> open_locked(const LocalAddress& address,
                                                       std::uint16_t port,
                                                       std::span<sock_filter> filter) noexcept;
  /// Sends from `port`, and takes nothing in. Over IPv4 "don't fragment" is set and the
  /// identification is 0; that holds for a socket that is not connected, and ours never is.
  [[nodiscard]] static Expected<UdpSocket> open_sender(const LocalAddress& address,
                                                       std::uint16_t port) noexcept;

  /// What a sending socket does by itself from now on. False where the system does not take all of
  /// it; it may have taken a part.
  [[nodiscard]] bool take_on(const Manner& manner, bool is_ipv4) noexcept;

  /// From now on packets of one flow that came together are read together (UDP GRO), with their
  /// length beside them. False where the system cannot do that.
  [[nodiscard]] bool keep_trains() noexcept;

  /// From now on traffic class and hop limit are read with each packet, or no longer. Only those
  /// who show them to somebody need them, and they cost a tenth of a microsecond.
  [[nodiscard]] bool tell_headers(const LocalAddress& address, bool tell) noexcept;

  /// Receives what is sent to a multicast group on the interface that `group` names. Every socket
  /// of the group, in whichever process, gets its own copy; also of what this host sends.
  [[nodiscard]] static Expected<UdpSocket> open_group(const LocalAddress& group,
                                                      std::uint16_t port) noexcept;

  /// Takes a descriptor of such a socket that somebody else has made.
  [[nodiscard]] static UdpSocket adopt(int descriptor) noexcept;
  /// Gives the descriptor away.
  [[nodiscard]] int release() noexcept { return descriptor_.release(); }

  /// Whatever the process that had it before has made of it: its options are as open_receiver()
  /// leaves them.
  void reset_receiver(const LocalAddress& address) noexcept;
  /// Replaces the program that steers packets to this socket and all that share its port. Where the
  /// system takes none, packets go anywhere, and must be forwarded.
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

/// The same for any of the sockets that share the port.
bool steer_sockets_beside(int socket, std::span<const ServiceRoute> routes,
                          std::uint32_t fallback = 0);

/// A local address and the socket on port 4791 that receives what is for this process there.
struct Receiver {
  LocalAddress address{};
  UdpSocket socket;
};

}  // namespace verbatim::link
