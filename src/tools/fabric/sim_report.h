// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/routing/credit_loops.h"
#include "sim/fabric/fabric_load.h"
#include "tools/fabric/fabric_view.h"
#include "tools/json.h"

/// What `verbatim sim --fabric` prints: values that text and JSON are made of.
namespace verbatim::tools {

/// A link whose sending port had packets and could not send them.
struct CongestedLink {
  fabric::PortEnd port{};
  std::uint64_t wait_ticks = 0;  // PortXmitWait
};

/// The smallest, the middle and the largest of some rates in Gb/s.
struct RateSpread {
  double least = 0;
  double median = 0;
  double most = 0;
  double sum = 0;
};

struct SimReport {
  std::string routes{};  // where they come from
  std::string pattern{};
  sim::FabricLoad load{};
  fabric::CreditLoops possible{};
  sim::LoadResult result{};
  RateSpread sent{};                       // by each host that sends, as far as it has arrived
  RateSpread received{};                   // by each host that is sent to
  std::vector<CongestedLink> congested{};  // the worst first
};

/// Fills what follows from the load and its result.
void complete(const FabricView& view, SimReport& report);

[[nodiscard]] std::string sim_text(const FabricView& view, const SimReport& report);
[[nodiscard]] Json sim_json(const FabricView& view, const SimReport& report);

}  // namespace verbatim::tools
