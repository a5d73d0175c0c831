// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::fabric {

/// The number of an agent among all agents of its port: 24 bits, never 0, not used again before all
/// others were. The upper half of the transactions of its requests.
enum class AgentNumber : std::uint32_t {};

}  // namespace verbatim::fabric
