// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"
#include "wire/management/attribute_data.h"

namespace verbatim::wire {

/// What a switch can forward, and how far its tables are filled (IBA Vol 1, 14.2.5.4).
///
///     0..1 linear entries | 2..3 random entries | 4..5 multicast entries | 6..7 linear top
///     8 default port | 9 default multicast primary port | 10 not primary
///     11 life time:5 port state change:1 optimised SL to VL:2 | 12..13 LIDs per port
///     14..15 partition enforcement entries
///     16 inbound:1 outbound:1 raw inbound:1 raw outbound:1 enhanced port 0:1 reserved:3
///     17 reserved | 18..19 multicast top
struct SwitchInfo {
  static constexpr std::size_t kSize = 64;
  std::uint16_t linear_limit = 0;  // entries of the linear forwarding table
  std::uint16_t random_limit = 0;
  std::uint16_t multicast_limit = 0;
  std::uint16_t linear_top = 0;  // a packet to a LID above it is discarded
  std::uint8_t default_port = 0;
  std::uint8_t default_multicast_primary_port = 0;
  std::uint8_t default_multicast_not_primary_port = 0;
  std::uint8_t life_time = 0;      // 4.096 us * 2^this; 5 bits
  bool port_state_change = false;  // in a Set: clear it
  std::uint8_t optimized_sl_to_vl = 0;
  std::uint16_t lids_per_port = 0;
  std::uint16_t partition_enforcement_limit = 0;  // P_Keys of each external port
  bool enforces_inbound = false;
  bool enforces_outbound = false;
  bool filters_raw_inbound = false;
  bool filters_raw_outbound = false;
  bool has_enhanced_port0 = false;
  std::uint16_t multicast_top = 0;
  friend bool operator==(const SwitchInfo&, const SwitchInfo&) noexcept = default;

  void emit(AttributeData to) const noexcept {
    std::ranges::fill(to, std::byte{0});
    store_be<std::uint16_t, 0>(to, linear_limit);
    store_be<std::uint16_t, 2>(to, random_limit);
    store_be<std::uint16_t, 4>(to, multicast_limit);
    store_be<std::uint16_t, 6>(to, linear_top);
    store_be<std::uint8_t, 8>(to, default_port);
    store_be<std::uint8_t, 9>(to, default_multicast_primary_port);
    store_be<std::uint8_t, 10>(to, default_multicast_not_primary_port);
    store_be<std::uint8_t, 11>(
        to, static_cast<std::uint8_t>((unsigned{life_time} << 3) | (port_state_change ? 4U : 0U) |
                                      (optimized_sl_to_vl & 3U)));
    store_be<std::uint16_t, 12>(to, lids_per_port);
    store_be<std::uint16_t, 14>(to, partition_enforcement_limit);
    store_be<std::uint8_t, 16>(to, static_cast<std::uint8_t>((enforces_inbound ? 0x80U : 0U) |
                                                             (enforces_outbound ? 0x40U : 0U) |
                                                             (filters_raw_inbound ? 0x20U : 0U) |
                                                             (filters_raw_outbound ? 0x10U : 0U) |
                                                             (has_enhanced_port0 ? 0x08U : 0U)));
    store_be<std::uint16_t, 18>(to, multicast_top);
  }
  static SwitchInfo from(ConstAttributeData octets) noexcept {
    const auto state = load_be<std::uint8_t, 11>(octets);
    const auto flags = load_be<std::uint8_t, 16>(octets);
    return {.linear_limit = load_be<std::uint16_t, 0>(octets),
            .random_limit = load_be<std::uint16_t, 2>(octets),
            .multicast_limit = load_be<std::uint16_t, 4>(octets),
            .linear_top = load_be<std::uint16_t, 6>(octets),
            .default_port = load_be<std::uint8_t, 8>(octets),
            .default_multicast_primary_port = load_be<std::uint8_t, 9>(octets),
            .default_multicast_not_primary_port = load_be<std::uint8_t, 10>(octets),
            .life_time = static_cast<std::uint8_t>(state >> 3),
            .port_state_change = (state & 4) != 0,
            .optimized_sl_to_vl = static_cast<std::uint8_t>(state & 3),
            .lids_per_port = load_be<std::uint16_t, 12>(octets),
            .partition_enforcement_limit = load_be<std::uint16_t, 14>(octets),
            .enforces_inbound = (flags & 0x80) != 0,
            .enforces_outbound = (flags & 0x40) != 0,
            .filters_raw_inbound = (flags & 0x20) != 0,
            .filters_raw_outbound = (flags & 0x10) != 0,
            .has_enhanced_port0 = (flags & 0x08) != 0,
            .multicast_top = load_be<std::uint16_t, 18>(octets)};
  }
};

}  // namespace verbatim::wire
