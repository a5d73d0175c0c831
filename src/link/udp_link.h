// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "link/capture.h"
#include "link/fault_injector.h"
#include "link/packet_burst.h"
#include "link/udp_socket.h"
#include "wire/ids.h"

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
class UdpLink {
 public:
  static constexpr std::size_t kSourcePorts = 4;  // per local address

  enum class Trains : std::uint8_t { kYes, kNo };  // no: every packet is a message of its own

  UdpLink();
  UdpLink(const UdpLink&) = delete;
  UdpLink& operator=(const UdpLink&) = delete;
  ~UdpLink();

  /// An address that this host does not have (a GID that was made up, IPv6 that is turned off) is
  /// left out: nothing can leave from it or reach it. kNoDevice when that leaves none;
  /// kAddressInUse when another user, or something else, holds the port on one of the addresses.
  [[nodiscard]] Status open(std::span<const LocalAddress> addresses, std::uint32_t slot,
                            Trains trains = Trains::kYes) noexcept;
  /// The same with sockets that are there already (link/shared_port.h).
  [[nodiscard]] Status open(std::vector<Receiver> receivers, std::uint32_t slot,
                            Trains trains = Trains::kYes) noexcept;
  /// One more address, with a socket that is there already. kAlreadyExists when it has the address.
  [[nodiscard]] Status add(Receiver receiver) noexcept;
  void close() noexcept;

  /// Faults on purpose (docs/FAULTS.md), between the caller and all that follows. Call it when
  /// open.
  void set_faults(const FaultRules& rules);
  /// Records what goes through the sockets as packets of `interface`. Call it when open.
  void record_to(Capture& capture, std::uint32_t interface) noexcept;
  /// Records a packet that came through another process's socket and lies in `octets`. Whether it
  /// arrives now, maybe changed: faults are for it, too.
  [[nodiscard]] bool admit_forwarded(const Incoming& incoming,
                                     std::span<std::byte> octets) noexcept;
  /// Receives what is sent to a multicast group, too, on the interface that it names.
  /// kAlreadyExists when it does so already; kNoDevice when the interface cannot.
  [[nodiscard]] Status join(const LocalAddress& group) noexcept;
  /// kNoSuchObject when it does not.
  [[nodiscard]] Status leave(const LocalAddress& group) noexcept;

  /// When flush() and receive() have something to do though nobody sends and nothing arrives.
  [[nodiscard]] Instant next_due() const noexcept;

  /// The source port that packets with this entropy leave `source` from; 0 if it is not ours.
  [[nodiscard]] std::uint16_t source_port(const wire::Gid& source,
                                          std::uint16_t entropy) const noexcept;

  /// The user that has the port at this address and lends it to us (docs/decisions/0025); nothing
  /// where it is this user's own.
  [[nodiscard]] std::optional<uid_t> lender_at(const wire::Gid& local) const noexcept;

  /// Incoming packets say what traffic class and hop limit they had. Without it they say what most
  /// have.
  void tell_headers() noexcept;

  /// Steers requests for connections that arrive at `local`, for all processes of that address, if
  /// there are others: see steering_program().
  void steer(const wire::Gid& local, std::span<const ServiceRoute> routes,
             std::uint32_t fallback) noexcept;

  /// Room for the next packet to send, at least kFrameOctets long, empty unless open. Write it,
  /// with the identification that the frame names, then commit(). The burst is sent by flush(), or
  /// when it is full.
  ///
  /// Several packets of equal length may be written at once, one behind the other: as many as the
  /// open train still takes, where it has packets of this length, else as many as a train takes,
  /// with identifications from 0 on.
  [[nodiscard]] Frame next_frame() noexcept;
  void commit(const Outgoing& to, const Written& written) noexcept;
  void commit(const Outgoing& to, std::size_t octets) noexcept;
  void flush() noexcept;

  /// Whether something is committed and not yet flushed.
  [[nodiscard]] bool has_packets_to_send() const noexcept;
  [[nodiscard]] Load load_to_send() const noexcept;

  /// Takes some of what has arrived, without waiting.
  enum class Look : std::uint8_t { kAtAllAddresses, kAtTheLastAddress };
  [[nodiscard]] std::span<const Incoming> receive(Look look = Look::kAtAllAddresses) noexcept;
  /// What the smallest of the receiving sockets' buffers holds, in the kernel's count.
  [[nodiscard]] std::size_t receive_buffer_octets() const noexcept;
  /// The sockets that become readable when packets arrive.
  [[nodiscard]] std::span<const int> descriptors() const noexcept;

  [[nodiscard]] const LinkCounters& counters() const noexcept { return counters_; }

 private:
  struct State;
  void put(const Outgoing& to, const Written& written) noexcept;
  void put_released() noexcept;
  [[nodiscard]] std::span<const Incoming> receive_burst(Look look) noexcept;

  std::unique_ptr<State> state_;  // socket addresses and buffers, which need system headers
  LinkCounters counters_;
  std::unique_ptr<FaultInjector> faults_;  // null: none
  Capture* capture_ = nullptr;             // the process's; null: none
  std::uint32_t interface_ = 0;            // ours in the capture
};

}  // namespace verbatim::link
