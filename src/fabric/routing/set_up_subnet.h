// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/expected.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/routing/subnet_plan.h"

namespace verbatim::fabric {

/// The attributes of ports and switches that a subnet manager chooses beside routes. The first
/// values are those of OpenSM.
struct SubnetSettings {
  std::uint8_t queue_life = 0x12;  // PortInfo.HOQLife of switch ports: 1.07 s; above 19 never
  std::uint8_t queue_life_to_host = 0x10;  // of those that lead to an adapter: 0.27 s
  std::uint8_t switch_life = 0x12;         // SwitchInfo.LifeTimeValue, as queue_life
  std::uint8_t stall_count = 7;            // PortInfo.VLStallCount
};

/// Does what a subnet manager does, without travelling datagrams: writes LIDs, tables and lanes of
/// a plan, then makes all ports Armed and Active. All ports are as after the start of the fabric.
/// What the agents of nodes refuse stays as it is; `message` then names the first port, and the
/// attribute.
[[nodiscard]] Status set_up_subnet(Fabric& fabric, Instant now, const SubnetPlan& plan,
                                   const SubnetSettings& settings, std::string& message);

/// The LIDs and tables that a fabric has now, whichever manager has written them. Lanes are not in
/// it.
[[nodiscard]] SubnetPlan plan_of(const Fabric& fabric);

}  // namespace verbatim::fabric
