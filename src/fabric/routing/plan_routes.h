// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/expected.h"
#include "fabric/routing/subnet_plan.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// How switches forward packets where no subnet manager has decided it.
enum class Routing : std::uint8_t {
  kMinHop,  // shortest ways; where the switches form loops, these can wait for each other in one
  kUpDown,  // ways that go up towards the middle and then down: no loop, but some are longer
};

/// A plan with a LID for each adapter port and each switch, from 1 on in the order of the topology,
/// adapters first. Of several ports that are equally good for a LID, a switch takes the one with
/// the fewest LIDs so far. Equal topologies give equal plans.
///
/// Up and down need a top. It is the switches that are farthest from any adapter, as the spines of
/// a tree; where all are equally far, or some ways between switches do not lead over these, it is
/// the switch whose ways to all others are the shortest together.
///
/// On failure `message` says so: there are more ports than LIDs.
[[nodiscard]] Expected<SubnetPlan> plan_routes(const Topology& topology, Routing routing,
                                               std::string& message);

}  // namespace verbatim::fabric
