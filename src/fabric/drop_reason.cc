// SPDX-License-Identifier: Apache-2.0
#include "fabric/drop_reason.h"

namespace verbatim::fabric {

const char* name_of(DropReason reason) noexcept {
  switch (reason) {
    case DropReason::kMalformed:
      return "malformed";
    case DropReason::kPortDown:
      return "port down";
    case DropReason::kPortNotActive:
      return "port not active";
    case DropReason::kNoSuchPort:
      return "no such port";
    case DropReason::kNoRoute:
      return "no route in the forwarding table";
    case DropReason::kLooping:
      return "route back through its own port";
    case DropReason::kNotForThisPort:
      return "address of another port";
    case DropReason::kWrongSource:
      return "source LID of another port";
    case DropReason::kTooLong:
      return "longer than the MTU of the link";
    case DropReason::kHopLimit:
      return "too many hops";
    case DropReason::kBadPKey:
      return "partition key";
    case DropReason::kBadQKey:
      return "queue key";
    case DropReason::kBadMKey:
      return "management key";
    case DropReason::kUnclaimed:
      return "nothing takes it";
    case DropReason::kUnmatched:
      return "answer to no request";
    case DropReason::kNoRoom:
      return "programs too slow";
    case DropReason::kCongestion:
      return "too many on the way";
    case DropReason::kLossOnPurpose:
      return "loss on purpose";
    case DropReason::kDamageOnPurpose:
      return "damaged on purpose";
    case DropReason::kNodeOff:
      return "node without power";
    case DropReason::kNoLane:
      return "no lane for the service level";
    case DropReason::kQueueLife:
      return "too long at the head of its lane";
    case DropReason::kSwitchLife:
      return "too long in the switch";
    case DropReason::kLaneStalled:
      return "lane stalled";
    case DropReason::kLane15Full:
      return "buffer of lane 15 full";
    case DropReason::kSenderGone:
      return "sender has ended";
  }
  return "?";
}

}  // namespace verbatim::fabric
