// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fabric/lanes/lane_cycle.h"
#include "fabric/routing/subnet_plan.h"
#include "fabric/routing/wiring.h"
#include "wire/headers/lrh.h"

namespace verbatim::fabric {

/// What the ways of all packets between adapters say about deadlocks, before any packet is sent
/// (Dally and Seitz: without a cycle in it, no deadlock is possible).
struct CreditLoops {
  std::vector<LaneCycle> loops{};  // one for each group of lanes that all lead to each other
  std::uint64_t ways = 0;          // from an adapter port to a LID of another one
  std::uint64_t broken_ways = 0;   // that do not arrive
};

/// Follows the packets of one service level from each adapter port to each LID of each other
/// adapter port by the tables and lanes of a plan.
[[nodiscard]] CreditLoops find_credit_loops(const Wiring& wiring, const SubnetPlan& plan,
                                            wire::ServiceLevel level);

}  // namespace verbatim::fabric
