// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/expected.h"
#include "fabric/routing/subnet_plan.h"
#include "fabric/topology/topology.h"
#include "fabric/topology/topology_lines.h"

namespace verbatim::fabric {

/// Reads the maps from service levels to lanes that OpenSM writes to opensm-sl2vl.dump when it runs
/// with -Q and -D 0x43, or with a routing that needs lanes:
///
///     Switch 0x0002564202000000, base LID 2, "leaf0"
///     #in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15
///     0   1   : 0  1  2  3  4  5  6  7  0  1  2  3  4  5  6  7
///
/// On failure, `error` has the line of the mistake and says what would be right.
[[nodiscard]] Expected<std::vector<PlannedLanes>> read_lane_dump(std::string_view text,
                                                                 const Topology& topology,
                                                                 TopologyError& error);

}  // namespace verbatim::fabric
