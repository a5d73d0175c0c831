// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::cm {

/// What became of a management datagram, in the order of the checks. Every verdict has a counter.
enum class Verdict : std::uint8_t {
  kHandled,          // it moved a communication on
  kDuplicate,        // seen before; answered again where there was an answer
  kAnswered,         // belongs to no communication of ours, and was answered all the same
  kMalformed,        // not 256 octets, or not a datagram of base version 1
  kNotCm,            // of another management class, version, method or attribute
  kUnknownId,        // names a communication that is not here, or no longer
  kWrongPeer,        // names one of ours, and comes from an address that is not its peer's
  kWrongRemoteId,    // names one of ours together with an ID that its peer does not have
  kWrongState,       // too late, too early, or never asked for
  kWrongQpn,         // a CmDreq for a queue pair that is not the communication's
  kNoListener,       // refused: nobody listens for the service ID
  kInvalidRequest,   // refused: transport, MTU or GID that we do not have
  kStaleConnection,  // refused: the peer's queue pair is in a connection that stands here
  kBacklogFull,      // dropped: the listener's user must take requests; the peer will try again
  kNoRoom,           // dropped: too many communications; the peer will try again
};
inline constexpr std::size_t kVerdictCount = 15;

/// One phrase for a person.
[[nodiscard]] const char* describe(Verdict verdict) noexcept;

/// How often each verdict was given, and what else an Agent counts.
struct Counters {
  std::array<std::uint64_t, kVerdictCount> verdicts{};  // indexed by Verdict
  std::uint64_t sent = 0;                               // datagrams, copies included
  std::uint64_t retransmitted = 0;                      // for want of an answer
  std::uint64_t timed_out = 0;                          // messages that nobody answered
  std::uint64_t not_sent = 0;  // dropped because the owner did not drain poll_transmit()

  [[nodiscard]] std::uint64_t of(Verdict verdict) const noexcept {
    return verdicts[static_cast<std::size_t>(verdict)];
  }
};

}  // namespace verbatim::cm
