// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::cm {

/// The result of a management datagram, in the order of the checks. Every verdict has a counter.
enum class Verdict : std::uint8_t {
  kHandled,          // it changed the state of a communication
  kDuplicate,        // seen before; answered again if there was an answer
  kAnswered,         // belongs to no communication here, and was answered all the same
  kMalformed,        // not 256 octets, or not a datagram of base version 1
  kNotCm,            // of another management class, version, method or attribute
  kUnknownId,        // names a communication that does not exist, or no longer exists
  kWrongPeer,        // names a communication, but comes from an address that is not its peer's
  kWrongRemoteId,    // names a communication together with an ID that its peer does not have
  kWrongState,       // too late, too early, or never requested
  kWrongQpn,         // a CmDreq for a queue pair that is not the communication's
  kNoListener,       // refused: no listener has the service ID
  kInvalidRequest,   // refused: a transport, MTU or GID that this adapter does not have
  kStaleConnection,  // refused: the peer's queue pair is in another connection here
  kBacklogFull,      // dropped: the user has not taken earlier requests; the peer tries again
  kNoRoom,           // dropped: too many communications; the peer tries again
};
inline constexpr std::size_t kVerdictCount = 15;

/// The verdict in words.
[[nodiscard]] const char* describe(Verdict verdict) noexcept;

/// How often each verdict occurred, and the other counters of an Agent.
struct Counters {
  std::array<std::uint64_t, kVerdictCount> verdicts{};  // indexed by Verdict
  std::uint64_t sent = 0;                               // datagrams, copies included
  std::uint64_t retransmitted = 0;                      // copies because no answer came
  std::uint64_t timed_out = 0;                          // messages that were never answered
  std::uint64_t not_sent = 0;  // dropped because the owner did not drain poll_transmit()

  [[nodiscard]] std::uint64_t of(Verdict verdict) const noexcept {
    return verdicts[static_cast<std::size_t>(verdict)];
  }
};

}  // namespace verbatim::cm
