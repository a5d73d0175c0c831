// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/time.h"
#include "sim/fabric/random_topology.h"

namespace verbatim::fabric::test {

/// What happens in the life of a fabric; a seed chooses the rest.
struct FabricHistory {
  std::uint64_t seed = 1;
  TopologySize size{};
  std::uint32_t loss_per_mille = 0;
  std::uint32_t events = 0;       // cables and power that go and come, some at once
  bool looks_at_switches = true;  // without, the subnet manager depends on traps
  bool has_data = false;          // programs send packets to each other all the time
  Duration hop_delay = std::chrono::microseconds(2);
  std::uint32_t slowdown = 0;  // of links; 0: they have no rate
};

struct FabricHistoryResult {
  std::string complaint;  // the first promise that was not kept; empty: none
  std::string trace;      // states of ports and instants, for comparing two runs
  std::size_t ports = 0;  // that are Active in the end
  std::size_t sweeps = 0;
  std::size_t pings = 0;    // that were answered
  std::size_t packets = 0;  // of programs, that have arrived
  Duration duration{};      // virtual
};

/// A random fabric with a subnet manager on its first host, cables that are pulled out and plugged
/// in, nodes that lose their power, and lost datagrams. In the end all is connected, and the
/// subnet manager must have brought each port to Active and given LIDs and routes such that each
/// pair of host ports can exchange datagrams, and packets of programs, if there are any.
[[nodiscard]] FabricHistoryResult run_fabric_history(const FabricHistory& history);

}  // namespace verbatim::fabric::test
