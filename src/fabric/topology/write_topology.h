// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// The topology as ibnetdiscover prints it: switches, then channel adapters, each in the order of
/// the topology, with the hints as LIDs. Nodes are named by kind and GUID. read_topology() returns
/// the same nodes and links.
[[nodiscard]] std::string write_topology(const Topology& topology);

}  // namespace verbatim::fabric
