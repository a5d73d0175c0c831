// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/expected.h"
#include "link/udp_socket.h"
#include "wire/ids.h"

namespace verbatim::link {

/// UDP destination port of RoCEv2 (annex A17).
inline constexpr std::uint16_t kRocePort = 4791;

/// Where one packet goes.
struct Outgoing {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;  // one that source_port() gave
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;  // 0: the default, which is 64
};

/// One packet that arrived: BTH to ICRC, and what the ICRC covers in front of it.
struct Incoming {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::span<const std::byte> octets{};  // in the link's buffer, until the next receive()
};

/// RoCEv2 over UDP sockets, for an ordinary user (docs/ARCHITECTURE.md, section 8).
///
/// Receiving: a socket per local address on port 4791, shared with the other processes of this user
/// by SO_REUSEPORT; a classic BPF program sends each packet to the process whose slot its
/// destination queue pair number carries. What still arrives at the wrong process is the caller's
/// to forward. Sending: unconnected sockets with "don't fragment", so that the IPv4 identification
/// is 0 and the ICRC can be computed, on a few source ports for flow entropy.
///
/// One thread at a time.
class UdpLink {
 public:
  static constexpr std::size_t kBurst = 32;          // packets per system call
  static constexpr std::size_t kFrameOctets = 4224;  // the longest packet, rounded up
  static constexpr std::size_t kSourcePorts = 4;     // per local address

  UdpLink();
  UdpLink(const UdpLink&) = delete;
  UdpLink& operator=(const UdpLink&) = delete;
  ~UdpLink();

  /// An address that this host does not have (a GID that was made up, IPv6 that is turned off) is
  /// left out: nothing can leave from it or reach it. kNoDevice when that leaves none;
  /// kAddressInUse when another user, or something else, holds the port on one of the addresses.
  [[nodiscard]] Status open(std::span<const LocalAddress> addresses, std::uint32_t slot) noexcept;
  void close() noexcept;

  /// The source port that packets with this entropy leave `source` from; 0 if it is not ours.
  [[nodiscard]] std::uint16_t source_port(const wire::Gid& source,
                                          std::uint16_t entropy) const noexcept;

  /// Room for the next packet to send, kFrameOctets long, empty unless open. Write it, then
  /// commit(). The burst is sent by flush(), or when it is full.
  [[nodiscard]] std::span<std::byte> next_frame() noexcept;
  void commit(const Outgoing& to, std::size_t octets) noexcept;
  void flush() noexcept;

  /// Takes up to kBurst packets that have arrived, without waiting.
  [[nodiscard]] std::span<const Incoming> receive() noexcept;
  /// The sockets that become readable when packets arrive.
  [[nodiscard]] std::span<const int> descriptors() const noexcept;

  struct Counters {
    std::uint64_t packets_sent = 0;
    std::uint64_t packets_received = 0;
    std::uint64_t send_failures = 0;  // the system refused; the packet is lost
    std::uint64_t too_large = 0;      // longer than the interface's MTU; lost as well
    std::uint64_t overlong = 0;       // arrived with more than kFrameOctets, thrown away
  };
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

 private:
  struct State;
  std::unique_ptr<State> state_;  // socket addresses and buffers, which need system headers
  Counters counters_;
};

}  // namespace verbatim::link
