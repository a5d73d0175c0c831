// SPDX-License-Identifier: Apache-2.0
#include "wire/management/port_info.h"

#include "base/byte_order.h"

namespace verbatim::wire {
namespace {

constexpr std::uint8_t nibbles(unsigned high, unsigned low) noexcept {
  return static_cast<std::uint8_t>((high << 4) | (low & 0x0fU));
}
constexpr std::uint8_t bit(bool value, unsigned number) noexcept {
  return static_cast<std::uint8_t>(value ? 1U << number : 0U);
}
constexpr std::uint8_t high(std::uint8_t octet) noexcept {
  return static_cast<std::uint8_t>(octet >> 4);
}
constexpr std::uint8_t low(std::uint8_t octet, unsigned bits) noexcept {
  return static_cast<std::uint8_t>(octet & ((1U << bits) - 1));
}

void emit_keys(const PortInfo& info, AttributeData to) noexcept {
  store_be<std::uint64_t, 0>(to, static_cast<std::uint64_t>(info.mkey));
  store_be<std::uint64_t, 8>(to, info.gid_prefix);
  store_be<std::uint16_t, 16>(to, static_cast<std::uint16_t>(info.lid));
  store_be<std::uint16_t, 18>(to, static_cast<std::uint16_t>(info.sm_lid));
  store_be<std::uint32_t, 20>(to, info.capability_mask);
  store_be<std::uint16_t, 24>(to, info.diagnostics);
  store_be<std::uint16_t, 26>(to, info.mkey_lease_seconds);
}

void emit_link(const PortInfo& info, AttributeData to) noexcept {
  store_be<std::uint8_t, 28>(to, info.local_port);
  store_be<std::uint8_t, 29>(to, info.width_enabled);
  store_be<std::uint8_t, 30>(to, info.width_supported);
  store_be<std::uint8_t, 31>(to, info.width_active);
  store_be<std::uint8_t, 32>(to, nibbles(info.speed_supported, static_cast<unsigned>(info.state)));
  store_be<std::uint8_t, 33>(
      to, nibbles(static_cast<unsigned>(info.physical_state), info.down_default));
  store_be<std::uint8_t, 34>(
      to, static_cast<std::uint8_t>((unsigned{info.mkey_protection} << 6) | (info.lmc & 7U)));
  store_be<std::uint8_t, 35>(to, nibbles(info.speed_active, info.speed_enabled));
}

void emit_lanes(const PortInfo& info, AttributeData to) noexcept {
  store_be<std::uint8_t, 36>(to, nibbles(info.neighbor_mtu, info.sm_level));
  store_be<std::uint8_t, 37>(to, nibbles(info.vl_limit, info.init_type));
  store_be<std::uint8_t, 38>(to, info.vl_high_limit);
  store_be<std::uint8_t, 39>(to, info.vl_high_entries);
  store_be<std::uint8_t, 40>(to, info.vl_low_entries);
  store_be<std::uint8_t, 41>(to, nibbles(info.init_reply, info.mtu_limit));
  store_be<std::uint8_t, 42>(to, static_cast<std::uint8_t>((unsigned{info.vl_stall_count} << 5) |
                                                           (info.queue_life & 0x1fU)));
  store_be<std::uint8_t, 43>(to, static_cast<std::uint8_t>(nibbles(info.operational_vls, 0) |
                                                           bit(info.enforces_pkey_inbound, 3) |
                                                           bit(info.enforces_pkey_outbound, 2) |
                                                           bit(info.filters_raw_inbound, 1) |
                                                           bit(info.filters_raw_outbound, 0)));
}

void emit_counts(const PortInfo& info, AttributeData to) noexcept {
  store_be<std::uint16_t, 44>(to, info.mkey_violations);
  store_be<std::uint16_t, 46>(to, info.pkey_violations);
  store_be<std::uint16_t, 48>(to, info.qkey_violations);
  store_be<std::uint8_t, 50>(to, info.guid_limit);
  store_be<std::uint8_t, 51>(
      to, static_cast<std::uint8_t>(bit(info.client_reregister, 7) |
                                    ((info.multicast_pkey_trap_suppression & 3U) << 5) |
                                    (info.subnet_timeout & 0x1fU)));
  store_be<std::uint8_t, 52>(to, low(info.response_time, 5));
  store_be<std::uint8_t, 53>(to, nibbles(info.physical_error_threshold, info.overrun_threshold));
  store_be<std::uint16_t, 54>(to, info.credit_hint);
}

void emit_speeds(const PortInfo& info, AttributeData to) noexcept {
  const unsigned speed_2 = ((info.speed_2_active & 3U) << 5) |
                           ((info.speed_2_supported & 3U) << 3) | (info.speed_2_enabled & 7U);
  store_be<std::uint32_t, 56>(to, (speed_2 << 24) | (info.round_trip & 0x00ff'ffffU));
  store_be<std::uint16_t, 60>(to, info.capability_mask_2);
  store_be<std::uint8_t, 62>(to,
                             nibbles(info.extended_speed_active, info.extended_speed_supported));
  store_be<std::uint8_t, 63>(to, low(info.extended_speed_enabled, 5));
}

void read_keys(ConstAttributeData octets, PortInfo& info) noexcept {
  info.mkey = MKey{load_be<std::uint64_t, 0>(octets)};
  info.gid_prefix = load_be<std::uint64_t, 8>(octets);
  info.lid = Lid{load_be<std::uint16_t, 16>(octets)};
  info.sm_lid = Lid{load_be<std::uint16_t, 18>(octets)};
  info.capability_mask = load_be<std::uint32_t, 20>(octets);
  info.diagnostics = load_be<std::uint16_t, 24>(octets);
  info.mkey_lease_seconds = load_be<std::uint16_t, 26>(octets);
}

void read_link(ConstAttributeData octets, PortInfo& info) noexcept {
  const auto octet = [octets](std::size_t at) { return std::to_integer<std::uint8_t>(octets[at]); };
  info.local_port = octet(28);
  info.width_enabled = octet(29);
  info.width_supported = octet(30);
  info.width_active = octet(31);
  info.speed_supported = high(octet(32));
  info.state = PortState{low(octet(32), 4)};
  info.physical_state = PortPhysicalState{high(octet(33))};
  info.down_default = low(octet(33), 4);
  info.mkey_protection = static_cast<std::uint8_t>(octet(34) >> 6);
  info.lmc = low(octet(34), 3);
  info.speed_active = high(octet(35));
  info.speed_enabled = low(octet(35), 4);
}

void read_lanes(ConstAttributeData octets, PortInfo& info) noexcept {
  const auto octet = [octets](std::size_t at) { return std::to_integer<std::uint8_t>(octets[at]); };
  info.neighbor_mtu = high(octet(36));
  info.sm_level = low(octet(36), 4);
  info.vl_limit = high(octet(37));
  info.init_type = low(octet(37), 4);
  info.vl_high_limit = octet(38);
  info.vl_high_entries = octet(39);
  info.vl_low_entries = octet(40);
  info.init_reply = high(octet(41));
  info.mtu_limit = low(octet(41), 4);
  info.vl_stall_count = static_cast<std::uint8_t>(octet(42) >> 5);
  info.queue_life = low(octet(42), 5);
  info.operational_vls = high(octet(43));
  info.enforces_pkey_inbound = (octet(43) & 8) != 0;
  info.enforces_pkey_outbound = (octet(43) & 4) != 0;
  info.filters_raw_inbound = (octet(43) & 2) != 0;
  info.filters_raw_outbound = (octet(43) & 1) != 0;
}

void read_counts(ConstAttributeData octets, PortInfo& info) noexcept {
  const auto octet = [octets](std::size_t at) { return std::to_integer<std::uint8_t>(octets[at]); };
  info.mkey_violations = load_be<std::uint16_t, 44>(octets);
  info.pkey_violations = load_be<std::uint16_t, 46>(octets);
  info.qkey_violations = load_be<std::uint16_t, 48>(octets);
  info.guid_limit = octet(50);
  info.client_reregister = (octet(51) & 0x80) != 0;
  info.multicast_pkey_trap_suppression = low(static_cast<std::uint8_t>(octet(51) >> 5), 2);
  info.subnet_timeout = low(octet(51), 5);
  info.response_time = low(octet(52), 5);
  info.physical_error_threshold = high(octet(53));
  info.overrun_threshold = low(octet(53), 4);
  info.credit_hint = load_be<std::uint16_t, 54>(octets);
}

void read_speeds(ConstAttributeData octets, PortInfo& info) noexcept {
  const auto octet = [octets](std::size_t at) { return std::to_integer<std::uint8_t>(octets[at]); };
  info.speed_2_active = low(static_cast<std::uint8_t>(octet(56) >> 5), 2);
  info.speed_2_supported = low(static_cast<std::uint8_t>(octet(56) >> 3), 2);
  info.speed_2_enabled = low(octet(56), 3);
  info.round_trip = load_be<std::uint32_t, 56>(octets) & 0x00ff'ffff;
  info.capability_mask_2 = load_be<std::uint16_t, 60>(octets);
  info.extended_speed_active = high(octet(62));
  info.extended_speed_supported = low(octet(62), 4);
  info.extended_speed_enabled = low(octet(63), 5);
}

}  // namespace

void PortInfo::emit(AttributeData to) const noexcept {
  emit_keys(*this, to);
  emit_link(*this, to);
  emit_lanes(*this, to);
  emit_counts(*this, to);
  emit_speeds(*this, to);
}

PortInfo PortInfo::from(ConstAttributeData octets) noexcept {
  PortInfo info;
  read_keys(octets, info);
  read_link(octets, info);
  read_lanes(octets, info);
  read_counts(octets, info);
  read_speeds(octets, info);
  return info;
}

}  // namespace verbatim::wire
