// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/expected.h"
#include "fabric/routing/subnet_plan.h"
#include "fabric/topology/topology.h"
#include "fabric/topology/topology_lines.h"

namespace verbatim::fabric {

/// Reads the forwarding tables of a subnet from a text of one of these forms:
///
///     dump_ucast_routes: Switch 0x0002564202000000         opensm.fdbs, of OpenSM with -D 0x43
///     0x0001 : 001  : 00   : yes
///     0x0002 : UNREACHABLE
///
///     Unicast lids [0-8] of switch Lid 2 guid 0x00... ('leaf0'):     opensm-lfts.dump
///     0x0001 001 # Channel Adapter portguid 0x...: 'h0'
///
/// and, like the second, what dump_fts and ibroute print. The LIDs of ports follow from the tables:
/// those of a switch leave it through port 0, those of an adapter leave the switch beside it
/// through the port that leads to it.
///
/// On failure, `error` has the line of the mistake and says what would be right: an unknown switch,
/// a port that a switch does not have, LIDs that cannot be those of one port.
[[nodiscard]] Expected<SubnetPlan> read_forwarding_dump(std::string_view text,
                                                        const Topology& topology,
                                                        TopologyError& error);

}  // namespace verbatim::fabric
