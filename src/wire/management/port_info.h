// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/headers/lrh.h"
#include "wire/headers/smp.h"
#include "wire/management/attribute_data.h"
#include "wire/management/port_state.h"

namespace verbatim::wire {

/// What a port can do: bits of PortInfo.CapabilityMask (IBA Vol 1, 14.2.5.6).
struct PortCapability {
  static constexpr std::uint32_t kIsSm = 1U << 1;
  static constexpr std::uint32_t kTrap = 1U << 3;
  static constexpr std::uint32_t kAutomaticMigration = 1U << 5;
  static constexpr std::uint32_t kSlMapping = 1U << 6;
  static constexpr std::uint32_t kSystemImageGuid = 1U << 11;
  static constexpr std::uint32_t kSwitchPortPKeyTrap = 1U << 12;
  static constexpr std::uint32_t kExtendedSpeeds = 1U << 14;
  static constexpr std::uint32_t kCapabilityMask2 = 1U << 15;
  static constexpr std::uint32_t kCommunication = 1U << 16;
  static constexpr std::uint32_t kCapabilityNotice = 1U << 22;
  static constexpr std::uint32_t kClientReregistration = 1U << 25;
  static constexpr std::uint32_t kOtherLocalChangesNotice = 1U << 26;
  static constexpr std::uint32_t kMulticastTop = 1U << 30;
};

/// Bits of PortInfo.CapabilityMask2.
struct PortCapability2 {
  static constexpr std::uint16_t kWidth2x = 1U << 4;
  static constexpr std::uint16_t kHdr = 1U << 5;
  static constexpr std::uint16_t kNdr = 1U << 10;
};

/// How a port is set up (IBA Vol 1, 14.2.5.6). Fields of less than an octet are written with their
/// low bits only.
///
///     0..7 M_Key | 8..15 GID prefix | 16..17 LID | 18..19 LID of the subnet manager
///     20..23 capability mask | 24..25 diagnostics | 26..27 M_Key lease
///     28 local port | 29 width enabled | 30 supported | 31 active
///     32 speed supported:4 state:4 | 33 physical state:4 down default:4
///     34 M_Key protection:2 reserved:3 LMC:3 | 35 speed active:4 enabled:4
///     36 neighbour MTU:4 SL of the subnet manager:4 | 37 VLs supported:4 initialisation type:4
///     38 VL high limit | 39, 40 entries of high and low arbitration
///     41 initialisation reply:4 MTU supported:4 | 42 VL stall:3 head of queue life:5
///     43 operational VLs:4 P_Key inbound:1 outbound:1 raw filter inbound:1 outbound:1
///     44..45, 46..47, 48..49 violations of M_Key, P_Key, Q_Key | 50 GUIDs
///     51 reregister:1 suppression:2 subnet timeout:5 | 52 reserved:3 response time:5
///     53 physical errors:4 overruns:4 | 54..55 credit hint
///     56 reserved:1 speed 2 active:2 supported:2 enabled:3 | 57..59 round trip
///     60..61 capability mask 2 | 62 extended speed active:4 supported:4
///     63 reserved:3 extended speed enabled:5
struct PortInfo {
  static constexpr std::size_t kSize = 64;
  static constexpr std::uint32_t kExtendedSpeedsModifier = 0x8000'0000;  // with speeds above QDR
  MKey mkey{};
  std::uint64_t gid_prefix = 0;
  Lid lid{};
  Lid sm_lid{};
  std::uint32_t capability_mask = 0;
  std::uint16_t diagnostics = 0;
  std::uint16_t mkey_lease_seconds = 0;  // 0: for ever
  std::uint8_t local_port = 0;
  std::uint8_t width_enabled = 0;
  std::uint8_t width_supported = 0;
  std::uint8_t width_active = 0;
  std::uint8_t speed_supported = 0;
  PortState state = PortState::kNoChange;
  PortPhysicalState physical_state = PortPhysicalState::kNoChange;
  std::uint8_t down_default = 0;
  std::uint8_t mkey_protection = 0;
  std::uint8_t lmc = 0;
  std::uint8_t speed_active = 0;
  std::uint8_t speed_enabled = 0;
  std::uint8_t neighbor_mtu = 0;
  std::uint8_t sm_level = 0;
  std::uint8_t vl_limit = 0;  // as operational_vls
  std::uint8_t init_type = 0;
  std::uint8_t vl_high_limit = 0;  // in 4096 octets
  std::uint8_t vl_high_entries = 0;
  std::uint8_t vl_low_entries = 0;
  std::uint8_t init_reply = 0;
  std::uint8_t mtu_limit = 0;
  std::uint8_t vl_stall_count = 0;
  std::uint8_t queue_life = 0;       // 4.096 us * 2^this; above 19 for ever
  std::uint8_t operational_vls = 0;  // 1 to 5: lanes 0, 0-1, 0-3, 0-7, 0-14
  bool enforces_pkey_inbound = false;
  bool enforces_pkey_outbound = false;
  bool filters_raw_inbound = false;
  bool filters_raw_outbound = false;
  std::uint16_t mkey_violations = 0;
  std::uint16_t pkey_violations = 0;
  std::uint16_t qkey_violations = 0;
  std::uint8_t guid_limit = 0;
  bool client_reregister = false;
  std::uint8_t multicast_pkey_trap_suppression = 0;
  std::uint8_t subnet_timeout = 0;  // 4.096 us * 2^this
  std::uint8_t response_time = 0;   // 4.096 us * 2^this
  std::uint8_t physical_error_threshold = 0;
  std::uint8_t overrun_threshold = 0;
  std::uint16_t credit_hint = 0;
  std::uint8_t speed_2_active = 0;
  std::uint8_t speed_2_supported = 0;
  std::uint8_t speed_2_enabled = 0;
  std::uint32_t round_trip = 0;
  std::uint16_t capability_mask_2 = 0;
  std::uint8_t extended_speed_active = 0;
  std::uint8_t extended_speed_supported = 0;
  std::uint8_t extended_speed_enabled = 0;
  friend bool operator==(const PortInfo&, const PortInfo&) noexcept = default;

  /// Writes every octet, reserved bits as zero.
  void emit(AttributeData to) const noexcept;
  static PortInfo from(ConstAttributeData octets) noexcept;
};

}  // namespace verbatim::wire
