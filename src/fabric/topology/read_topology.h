// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/expected.h"
#include "fabric/topology/topology.h"
#include "fabric/topology/topology_lines.h"

namespace verbatim::fabric {

/// Reads what ibnetdiscover prints (with or without --full, --grouping and names of its own for
/// nodes), and the files of ibsim, which have the same form and leave out most of it:
///
///     vendid=0x2c9
///     devid=0xd2f0
///     switchguid=0x98039b0300a0b1c0(98039b0300a0b1c0)
///     Switch  36 "S-98039b0300a0b1c0"   # "leaf0" enhanced port 0 lid 3 lmc 0
///     [1] "H-98039b03000d4e70"[1](98039b03000d4e70)   # "h0 mlx5_0" lid 7 4xHDR
///
/// A link may be mentioned at one end or at both; of two rates, the slower is taken. Without a
/// rate, a link is 4xEDR. Missing GUIDs are made, a missing description is the name of the node.
///
/// On failure, `error` has the line of the mistake and says what would be right. Routers, and the
/// lines `include` and `do` of ibsim, are refused.
[[nodiscard]] Expected<Topology> read_topology(std::string_view text, TopologyError& error);

}  // namespace verbatim::fabric
