// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/slot_numbers.h"
#include "loop/multicast_table.h"
#include "loop/queue_pair_table.h"

/// What an adapter offers at most; `ibv_query_device` reports these.
namespace verbatim::device {

inline constexpr std::uint32_t kMaxQueueDepth = 1U << 15;  // work requests of one queue
inline constexpr std::uint32_t kMaxSges = 30;              // elements of one request
inline constexpr std::uint32_t kMaxInlineOctets = 1024;
inline constexpr std::uint32_t kMaxQueuePairs = loop::kQueuePairsMax;
inline constexpr std::uint32_t kMaxKeys = kNumbersPerSlot - 1;
inline constexpr std::uint32_t kMaxDomains = 4096;
inline constexpr std::uint32_t kMaxCompletionQueues = 1U << 16;
inline constexpr std::uint32_t kMaxSharedQueues = 1U << 16;
inline constexpr std::uint32_t kMaxAddressHandles = 1U << 20;
inline constexpr std::uint32_t kMaxGroups = loop::kGroupsMax;
inline constexpr std::uint32_t kMaxGroupMembers = loop::kMembersMax;

}  // namespace verbatim::device
