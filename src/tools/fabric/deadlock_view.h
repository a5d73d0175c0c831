// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fabric/lanes/deadlock_finder.h"
#include "fabric/routing/credit_loops.h"
#include "tools/fabric/fabric_view.h"
#include "tools/json.h"

/// Lanes that wait for each other, as `verbatim fabric show deadlock` and `verbatim sim --fabric`
/// show them.
namespace verbatim::tools {

/// What `show deadlock` shows.
struct DeadlockReport {
  std::vector<fabric::Deadlock> deadlocks{};
  std::size_t waiting_lanes = 0;   // that wait for room, whether or not they go on
  fabric::CreditLoops possible{};  // by the tables, on service level 0
};
[[nodiscard]] DeadlockReport deadlocks_of(const FabricView& view);

/// One line for each lane: its port, the port at the other end of the link, the nodes' LIDs.
[[nodiscard]] std::string cycle_text(const FabricView& view, const fabric::LaneCycle& cycle);
[[nodiscard]] Json cycle_json(const FabricView& view, const fabric::LaneCycle& cycle);
[[nodiscard]] Json cycles_json(const FabricView& view,
                               const std::vector<fabric::LaneCycle>& cycles);

[[nodiscard]] std::string deadlock_text(const FabricView& view, const DeadlockReport& report);
[[nodiscard]] Json deadlock_json(const FabricView& view, const DeadlockReport& report);

/// Seconds since the start of a fabric, with all their digits.
[[nodiscard]] std::string seconds_text(Instant instant);

}  // namespace verbatim::tools
