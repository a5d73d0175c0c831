// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/prng.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric::test {

struct TopologySize {
  std::uint32_t switches_max = 8;
  std::uint32_t hosts_max = 12;
};

/// A connected fabric: switches with random numbers of ports in a random tree, hosts with one or
/// two ports at random switches, and further links between ports that are free. The first node is a
/// host.
[[nodiscard]] Topology random_topology(Prng& prng, const TopologySize& size = {});

}  // namespace verbatim::fabric::test
