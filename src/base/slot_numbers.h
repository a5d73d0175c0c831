// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// How the numbers of queue pairs and keys are divided among the processes of a host: the slot of
/// the process is in their upper eight bits.
namespace verbatim {

/// The most processes of one user in one network namespace.
inline constexpr std::uint32_t kSlotCount = 256;
/// Numbers that each slot has for queue pairs, and for keys.
inline constexpr std::uint32_t kNumbersPerSlot = 1U << 16;

}  // namespace verbatim
