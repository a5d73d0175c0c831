// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::fabric {

/// Why the fabric discarded a packet. Each reason has a counter.
enum class DropReason : std::uint8_t {
  kMalformed,        // headers or a directed route that contradict themselves
  kPortDown,         // the port that it had to leave through, or its link, is down
  kPortNotActive,    // neither subnet management nor on a port that is Active
  kNoSuchPort,       // a directed route through a port that the node does not have
  kNoRoute,          // the forwarding tables of a switch have no port for the destination
  kLooping,          // it would leave a switch through the port at which it arrived
  kNotForThisPort,   // it arrived at an adapter port with another LID or GID
  kWrongSource,      // a program sent it with a source LID that its port does not have
  kTooLong,          // longer than the MTU of the link allows
  kHopLimit,         // it has passed more switches than any subnet has: the tables loop
  kBadPKey,          // the port is not in its partition
  kBadQKey,          // its key is not that of queue pair 1
  kBadMKey,          // its key is not that of the receiving port
  kUnclaimed,        // nothing takes it: no agent is registered for it, or it is data for a switch
  kUnmatched,        // an answer to no outstanding request
  kNoRoom,           // the programs of the port take their datagrams too slowly
  kCongestion,       // more packets are on the way than the fabric has room for
  kLossOnPurpose,    // the loss that the user asked for
  kDamageOnPurpose,  // likewise, damage: the VCRC is wrong
  kNodeOff,          // the node that should have sent or received it has no power
  kNoLane,           // the table of lanes has none for its service level, or one that is not in use
  kQueueLife,        // it was the first of its lane for too long: nothing left there
  kSwitchLife,       // it was in a switch for too long
  kLaneStalled,      // so many before it were that its lane discards all for a while
  kLane15Full,       // subnet management has no credits: its receive buffer was full
  kSenderGone,       // its program has ended, and it could not leave the adapter for long
};
inline constexpr std::size_t kDropReasonCount = 26;

/// What a user reads about it.
[[nodiscard]] const char* name_of(DropReason reason) noexcept;

}  // namespace verbatim::fabric
