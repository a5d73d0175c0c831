// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "link/link.h"
#include "udp/udp_socket.h"
#include "wire/headers/ids.h"

namespace verbatim::link {

/// UDP destination port of RoCEv2 (annex A17).
inline constexpr std::uint16_t kRocePort = 4791;

/// RoCEv2 over UDP sockets, for an ordinary user (docs/ARCHITECTURE.md, section 8).
///
/// Receiving: a socket per local address on port 4791, shared with the other processes of this user
/// by SO_REUSEPORT; a classic BPF program sends each packet to the process whose slot its
/// destination queue pair number carries. The caller forwards packets that arrive at the wrong
/// process. Sending: unconnected sockets with "don't fragment", so that the IPv4 identification is
/// known and the ICRC can be computed, on a few source ports for flow entropy. Trains of packets
/// pass through the kernel in one piece, in both directions, if it can do that.
///
/// One thread at a time.
class UdpLink final : public Link {
 public:
  static constexpr std::size_t kSourcePorts = 4;  // per local address

  enum class Trains : std::uint8_t { kYes, kNo };  // kNo: every packet is a message of its own

  UdpLink();
  ~UdpLink() override;

  /// An address that this host does not have (an invented GID, or IPv6 that is turned off) is left
  /// out, because no packet can leave from it or reach it. kNoDevice when no address remains.
  /// kAddressInUse when another user, or another program, holds the port on one of the addresses.
  [[nodiscard]] Status open(std::span<const LocalAddress> addresses, std::uint32_t slot,
                            Trains trains = Trains::kYes) noexcept;
  /// The same with sockets that exist already (udp/shared_port.h).
  [[nodiscard]] Status open(std::vector<ReceivingSocket> receivers, std::uint32_t slot,
                            Trains trains = Trains::kYes) noexcept;
  /// Adds an address with its socket. kAlreadyExists when the link has the address.
  [[nodiscard]] Status add(ReceivingSocket receiver) noexcept;

  /// From now on the link also receives packets to a multicast group, on the interface that `group`
  /// names. kAlreadyExists when it does so already, kNoDevice when the interface cannot.
  [[nodiscard]] Status join(const LocalAddress& group) noexcept;
  /// Leaves the group. kNoSuchObject when the link has not joined the group.
  [[nodiscard]] Status leave(const LocalAddress& group) noexcept;

  /// The source port of packets with this entropy from `source`; 0 if the link does not have that
  /// address.
  [[nodiscard]] std::uint16_t source_port(const wire::Gid& source,
                                          std::uint16_t entropy) const noexcept;

  /// The user that has the port at this address and lends it to this user (docs/decisions/0025);
  /// nothing where this user has the port itself.
  [[nodiscard]] std::optional<uid_t> lender_at(const wire::Gid& local) const noexcept;

  /// Steers connection requests that arrive at `local`, for all processes that share the address,
  /// if there are any (steering_program()).
  void steer(const wire::Gid& local, std::span<const ServiceRoute> routes,
             std::uint32_t fallback) noexcept;

  /// The size of the smallest buffer of the receiving sockets, as the kernel counts.
  [[nodiscard]] std::size_t receive_buffer_octets() const noexcept;

  void send(Instant now, Burst& burst) noexcept override;
  using Link::receive;
  [[nodiscard]] std::span<const Incoming> receive(Instant now, Look look) noexcept override;
  /// The receiving sockets.
  [[nodiscard]] std::span<const int> descriptors() const noexcept override;
  [[nodiscard]] const LinkCounters& counters() const noexcept override { return counters_; }
  void tell_headers() noexcept override;
  void close() noexcept override;

 private:
  struct State;

  std::unique_ptr<State> state_;  // socket addresses and buffers, which need system headers
  LinkCounters counters_;
};

}  // namespace verbatim::link
