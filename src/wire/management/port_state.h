// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::wire {

/// The state of a port as a link layer (IBA Vol 1, 7.2.7 and 14.2.5.6).
enum class PortState : std::uint8_t {
  kNoChange = 0,    // in a Set only
  kDown = 1,        // in a Set: train the link again
  kInitialize = 2,  // passes subnet management packets only
  kArmed = 3,       // receives data as well; the first data packet makes it Active
  kActive = 4,
};

/// The state of a port as a physical layer (14.2.5.6).
enum class PortPhysicalState : std::uint8_t {
  kNoChange = 0,  // in a Set only
  kSleep = 1,
  kPolling = 2,
  kDisabled = 3,
  kTraining = 4,
  kLinkUp = 5,
  kErrorRecovery = 6,
};

}  // namespace verbatim::wire
