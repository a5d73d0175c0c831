// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "fabric/node/node.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// The performance management agent of a node (IBA Vol 1, 16.1): reads and resets the counters of
/// its ports. It knows the attributes of wire::PerformanceAttribute.
///
/// Writes the answer to `mad`, which holds a Get or Set of the class kPerformance.
void answer_performance(Node& node, std::span<std::byte, wire::Mad::kSize> mad);

}  // namespace verbatim::fabric
