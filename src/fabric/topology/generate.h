// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/expected.h"
#include "fabric/topology/topology.h"

/// Topologies without a file. Hosts are h0, h1, ... in the order of their switches, each with one
/// port; they are connected to the first ports of a switch. Each function takes the shape as the
/// user writes it; on failure `message` says what would be right.
namespace verbatim::fabric {

/// "2x2": two switches, leaf0 and leaf1, with two hosts each. Two switches are connected to each
/// other by two links, more than two each to the switch `spine0` by two links.
[[nodiscard]] Expected<Topology> tree_topology(std::string_view shape, LinkRate rate,
                                               std::string& message);

/// "6": switches sw0 to sw5 in a ring, with one host each.
[[nodiscard]] Expected<Topology> ring_topology(std::string_view shape, LinkRate rate,
                                               std::string& message);

/// "32x32/16": 32 leaf switches with 32 hosts each and 16 spine switches; each leaf has one link to
/// each spine.
[[nodiscard]] Expected<Topology> fat_tree_topology(std::string_view shape, LinkRate rate,
                                                   std::string& message);

/// "4x4" or "3x3x3": switches on a torus, named by their coordinates (sw0.0, sw0.1), with one host
/// each.
[[nodiscard]] Expected<Topology> torus_topology(std::string_view shape, LinkRate rate,
                                                std::string& message);

}  // namespace verbatim::fabric
