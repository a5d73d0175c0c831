// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::wire {

/// A 64-bit global name of a node, a port or a channel adapter (EUI-64; IBA Vol 1, 4.1.2).
enum class Guid : std::uint64_t {};

}  // namespace verbatim::wire
