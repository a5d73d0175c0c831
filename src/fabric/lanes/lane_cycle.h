// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fabric/lanes/lane_wait.h"

namespace verbatim::fabric {

/// Output lanes each of which needs room that the packets of the next one occupy, and the last one
/// room that those of the first one occupy. The link of each leads to the node of the next one.
using LaneCycle = std::vector<LaneEnd>;

}  // namespace verbatim::fabric
