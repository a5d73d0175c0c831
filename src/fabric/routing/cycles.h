// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace verbatim::fabric {

/// Of a graph: by vertex, the vertices that its edges lead to.
using Edges = std::vector<std::vector<std::uint32_t>>;
using Cycle = std::vector<std::uint32_t>;

/// One cycle for each part of the graph in which all vertices reach each other: a shortest one
/// through the least vertex of the part that lies on it, beginning there. Empty: the graph has no
/// cycles. In the order of their first vertices; equal graphs give equal results.
[[nodiscard]] std::vector<Cycle> find_cycles(const Edges& edges);

}  // namespace verbatim::fabric
