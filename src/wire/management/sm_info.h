// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"
#include "wire/headers/guid.h"
#include "wire/management/attribute_data.h"

namespace verbatim::wire {

enum class SmState : std::uint8_t {
  kNotActive = 0,
  kDiscovering = 1,
  kStandby = 2,
  kMaster = 3,
};

/// What one subnet manager tells another of itself (IBA Vol 1, 14.2.5.13).
///
///     0..7 port GUID | 8..15 SM_Key | 16..19 activity | 20 priority:4 state:4
struct SmInfo {
  static constexpr std::size_t kSize = 64;
  Guid guid{};
  std::uint64_t sm_key = 0;
  std::uint32_t activity_count = 0;  // grows as long as the manager works
  std::uint8_t priority = 0;         // 4 bits; the highest is the master
  SmState state = SmState::kNotActive;
  friend bool operator==(const SmInfo&, const SmInfo&) noexcept = default;

  void emit(AttributeData to) const noexcept {
    std::ranges::fill(to, std::byte{0});
    store_be<std::uint64_t, 0>(to, static_cast<std::uint64_t>(guid));
    store_be<std::uint64_t, 8>(to, sm_key);
    store_be<std::uint32_t, 16>(to, activity_count);
    store_be<std::uint8_t, 20>(to,
                               static_cast<std::uint8_t>((unsigned{priority} << 4) |
                                                         (static_cast<unsigned>(state) & 0x0fU)));
  }
  static SmInfo from(ConstAttributeData octets) noexcept {
    const auto last = load_be<std::uint8_t, 20>(octets);
    return {.guid = Guid{load_be<std::uint64_t, 0>(octets)},
            .sm_key = load_be<std::uint64_t, 8>(octets),
            .activity_count = load_be<std::uint32_t, 16>(octets),
            .priority = static_cast<std::uint8_t>(last >> 4),
            .state = SmState{static_cast<std::uint8_t>(last & 0x0f)}};
  }
};

}  // namespace verbatim::wire
