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
/// destination queue pair number carries. What still arrives at the wrong process is the caller's
/// to forward. Sending: unconnected sockets with "don't fragment", so that the IPv4 identification
/// is known and the ICRC can be computed, on a few source ports for flow entropy. Trains of packets
/// go through the kernel in one piece, both ways, where it can do that.
///
/// One thread at a time.
class UdpLink final : public Link {
 public:
  static constexpr std::size_t kSourcePorts = 4;  // per local address

  enum class Trains : std::uint8_t { kYes, kNo };  // no: every packet is a message of its own

  UdpLink();
  ~UdpLink() override;

  /// An address that this host does not have (a GID that was made up, IPv6 that is turned off) is
  /// left out: nothing can leave from it or reach it. kNoDevice when that leaves none;
  /// kAddressInUse when another user, or something else, holds the port on one of the addresses.
  [[nodiscard]] Status open(std::span<const LocalAddress> addresses, std::uint32_t slot,
                            Trains trains = Trains::kYes) noexcept;
  /// The same with sockets that are there already (udp/shared_port.h).
  [[nodiscard]] Status open(std::vector<Receiver> receivers, std::uint32_t slot,
                            Trains trains = Trains::kYes) noexcept;
  /// One more address, with a socket that is there already. kAlreadyExists when it has the address.
  [[nodiscard]] Status add(Receiver receiver) noexcept;

  /// Receives what is sent to a multicast group, too, on the interface that it names.
  /// kAlreadyExists when it does so already; kNoDevice when the interface cannot.
  [[nodiscard]] Status join(const LocalAddress& group) noexcept;
  /// kNoSuchObject when it does not.
  [[nodiscard]] Status leave(const LocalAddress& group) noexcept;

  /// The source port that packets with this entropy leave `source` from; 0 if it is not ours.
  [[nodiscard]] std::uint16_t source_port(const wire::Gid& source,
                                          std::uint16_t entropy) const noexcept;

  /// The user that has the port at this address and lends it to us (docs/decisions/0025); nothing
  /// where it is this user's own.
  [[nodiscard]] std::optional<uid_t> lender_at(const wire::Gid& local) const noexcept;

  /// Steers requests for connections that arrive at `local`, for all processes of that address, if
  /// there are others: see steering_program().
  void steer(const wire::Gid& local, std::span<const ServiceRoute> routes,
             std::uint32_t fallback) noexcept;

  /// What the smallest of the receiving sockets' buffers holds, in the kernel's count.
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
