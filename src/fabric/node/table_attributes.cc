// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/byte_order.h"
#include "fabric/node/attribute_access.h"

namespace verbatim::fabric {
namespace {

using wire::SmpStatus;

constexpr std::size_t kPKeysPerBlock = 32;
constexpr std::uint32_t kLowArbitrationBlock = 1;   // entries 0 to 31; block 2 has the others
constexpr std::uint32_t kHighArbitrationBlock = 3;  // likewise

}  // namespace

/// The modifier is the block (IBA Vol 1, 14.2.5.5). The first GUID is the port's own.
SmpStatus access_guid_info(const AttributeAccess& access) {
  if (access.modifier != 0) return SmpStatus::kInvalidField;
  const std::uint8_t number = access.node.management_port(access.ingress);
  auto& guids = access.node.port(number).guids;
  if (access.is_set) {
    for (std::size_t i = 1; i < guids.size(); ++i) {
      guids[i] = wire::Guid{load_be_at<std::uint64_t>(access.data.data() + 8 * i)};
    }
    access.outcome.changed_port = number;
  }
  for (std::size_t i = 0; i < guids.size(); ++i) {
    store_be_at(access.data.data() + 8 * i, static_cast<std::uint64_t>(guids[i]));
  }
  return SmpStatus::kOk;
}

/// The modifier is 0..15 block | 16..31 port, of a switch only (14.2.5.7).
SmpStatus access_pkey_table(const AttributeAccess& access) {
  const auto number = access.port_of(access.node.is_switch() ? access.modifier >> 16 : 0);
  const std::size_t first = (access.modifier & 0xffff) * kPKeysPerBlock;
  if (!number || first >= access.node.port(*number).pkeys.size()) return SmpStatus::kInvalidField;
  auto& pkeys = access.node.port(*number).pkeys;
  for (std::size_t i = 0; i < kPKeysPerBlock; ++i) {
    std::byte* const at = access.data.data() + 2 * i;
    if (access.is_set) pkeys[first + i] = wire::PKey{load_be_at<std::uint16_t>(at)};
    store_be_at(at, static_cast<std::uint16_t>(pkeys[first + i]));
  }
  if (access.is_set) access.outcome.changed_port = *number;
  return SmpStatus::kOk;
}

/// The modifier is 0..7 port out | 8..15 port in, of a switch only (14.2.5.8).
SmpStatus access_lane_map(const AttributeAccess& access) {
  std::uint8_t in = 0;
  std::uint8_t out = access.ingress;
  if (access.node.is_switch()) {
    in = static_cast<std::uint8_t>(access.modifier >> 8);
    out = static_cast<std::uint8_t>(access.modifier);
    if (access.modifier > 0xffff || std::max(in, out) > access.node.port_count()) {
      return SmpStatus::kInvalidField;
    }
  }
  SwitchPart::LaneMap map = access.node.lane_map(in, out);
  if (access.is_set) {
    std::ranges::copy(access.data.first<map.size()>(), map.begin());
    access.node.set_lane_map(in, out, map);
  }
  std::ranges::fill(access.data, std::byte{0});
  std::ranges::copy(map, access.data.begin());
  return SmpStatus::kOk;
}

/// The modifier is 0..15 port, of a switch only | 16..31 block (14.2.5.9).
SmpStatus access_arbitration(const AttributeAccess& access) {
  const auto number = access.port_of(access.node.is_switch() ? access.modifier & 0xffff : 0);
  const std::uint32_t block = access.modifier >> 16;
  if (!number || (access.node.is_switch() && *number == 0)) return SmpStatus::kInvalidField;
  if (block != kLowArbitrationBlock && block != kHighArbitrationBlock) {
    return SmpStatus::kInvalidField;
  }
  Port& port = access.node.port(*number);
  auto& table = block == kLowArbitrationBlock ? port.low_arbitration : port.high_arbitration;
  if (access.is_set) {
    std::ranges::copy(access.data.first(table.size()), table.begin());
    access.outcome.changed_arbitration = *number;
  }
  std::ranges::fill(access.data, std::byte{0});
  std::ranges::copy(table, access.data.begin());
  return SmpStatus::kOk;
}

}  // namespace verbatim::fabric
