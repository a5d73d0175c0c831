// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/attribute_access.h"

namespace verbatim::fabric {
namespace {

using wire::PortInfo;
using wire::PortPhysicalState;
using wire::PortState;
using wire::SmpStatus;

// Values of a Set that mean: all that is supported. 0 means: as it is.
constexpr std::uint8_t kAllWidths = 255;
constexpr std::uint8_t kAllSpeeds = 15;
constexpr std::uint8_t kAllExtendedSpeeds = 31;
constexpr std::uint8_t kNoExtendedSpeed = 30;
constexpr std::uint8_t kAllSpeeds2 = 7;
constexpr std::uint8_t kNoSpeed2 = 6;
constexpr std::uint8_t kDownDefaultMax = 2;

/// A Set of PortInfo: what the port has, what the manager wants.
struct PortChange {
  Port& port;
  const PortInfo& wanted;
  bool has_extended_speeds = false;  // else the fields of speeds above QDR are not looked at
};

constexpr bool is_subset(unsigned wanted, unsigned supported) noexcept {
  return (wanted & ~supported) == 0;
}

constexpr bool is_width(const PortChange& change) noexcept {
  const auto wanted = change.wanted.width_enabled;
  return wanted == kAllWidths || is_subset(wanted, change.port.info.width_supported);
}

bool are_speeds(const PortChange& change) noexcept {
  const PortInfo& wanted = change.wanted;
  const PortInfo& info = change.port.info;
  if (wanted.speed_enabled != kAllSpeeds &&
      !is_subset(wanted.speed_enabled, info.speed_supported)) {
    return false;
  }
  if (!change.has_extended_speeds) return true;
  const bool is_extended = wanted.extended_speed_enabled == kAllExtendedSpeeds ||
                           wanted.extended_speed_enabled == kNoExtendedSpeed ||
                           is_subset(wanted.extended_speed_enabled, info.extended_speed_supported);
  const bool is_speed_2 = wanted.speed_2_enabled == kAllSpeeds2 ||
                          wanted.speed_2_enabled == kNoSpeed2 ||
                          is_subset(wanted.speed_2_enabled, info.speed_2_supported);
  return is_extended && is_speed_2;
}

/// The transitions that a subnet manager can ask for (IBA Vol 1, 7.2.7).
bool is_state_change(const PortChange& change) noexcept {
  const PortState has = change.port.info.state;
  switch (change.wanted.state) {
    case PortState::kNoChange:
    case PortState::kDown:
      return true;
    case PortState::kInitialize:
      return false;
    case PortState::kArmed:
      return has == PortState::kInitialize || has == PortState::kArmed;
    case PortState::kActive:
      return has == PortState::kArmed || has == PortState::kActive;
  }
  return false;
}

bool is_physical_change(const PortChange& change) noexcept {
  if (change.wanted.physical_state == PortPhysicalState::kNoChange) return true;
  return change.wanted.physical_state <= PortPhysicalState::kDisabled &&
         change.wanted.state <= PortState::kDown;
}

bool is_link_change(const PortChange& change) noexcept {
  const PortInfo& wanted = change.wanted;
  const PortInfo& info = change.port.info;
  return is_width(change) && are_speeds(change) && is_state_change(change) &&
         is_physical_change(change) && wanted.down_default <= kDownDefaultMax &&
         wanted.neighbor_mtu <= info.mtu_limit && wanted.operational_vls <= info.vl_limit;
}

bool is_management_change(const PortInfo& wanted) noexcept {
  return wanted.lid < wire::Lid::kFirstMulticast && wanted.sm_lid < wire::Lid::kFirstMulticast;
}

/// A field of widths or speeds: which values of a Set have a meaning of their own.
struct EnabledField {
  std::uint8_t all = 0;
  std::optional<std::uint8_t> none{};
};
constexpr EnabledField kWidths{.all = kAllWidths};
constexpr EnabledField kSpeeds{.all = kAllSpeeds};
constexpr EnabledField kExtendedSpeeds{.all = kAllExtendedSpeeds, .none = kNoExtendedSpeed};
constexpr EnabledField kSpeeds2{.all = kAllSpeeds2, .none = kNoSpeed2};

constexpr void write_enabled(std::uint8_t& enabled, const EnabledField& field, std::uint8_t wanted,
                             std::uint8_t supported) noexcept {
  if (wanted == field.all) {
    enabled = supported;
  } else if (wanted == field.none) {
    enabled = 0;
  } else if (wanted != 0) {
    enabled = wanted;
  }
}

void write_speeds(const PortChange& change) noexcept {
  PortInfo& info = change.port.info;
  const PortInfo& wanted = change.wanted;
  write_enabled(info.width_enabled, kWidths, wanted.width_enabled, info.width_supported);
  write_enabled(info.speed_enabled, kSpeeds, wanted.speed_enabled, info.speed_supported);
  if (!change.has_extended_speeds) return;
  write_enabled(info.extended_speed_enabled, kExtendedSpeeds, wanted.extended_speed_enabled,
                info.extended_speed_supported);
  write_enabled(info.speed_2_enabled, kSpeeds2, wanted.speed_2_enabled, info.speed_2_supported);
}

void write_lanes(const PortChange& change) noexcept {
  PortInfo& info = change.port.info;
  const PortInfo& wanted = change.wanted;
  if (wanted.down_default != 0) info.down_default = wanted.down_default;
  if (wanted.neighbor_mtu != 0) info.neighbor_mtu = wanted.neighbor_mtu;
  if (wanted.operational_vls != 0) info.operational_vls = wanted.operational_vls;
  info.vl_high_limit = wanted.vl_high_limit;
  info.vl_stall_count = wanted.vl_stall_count;
  info.queue_life = wanted.queue_life;
  info.enforces_pkey_inbound = wanted.enforces_pkey_inbound;
  info.enforces_pkey_outbound = wanted.enforces_pkey_outbound;
  info.filters_raw_inbound = wanted.filters_raw_inbound;
  info.filters_raw_outbound = wanted.filters_raw_outbound;
  info.physical_error_threshold = wanted.physical_error_threshold;
  info.overrun_threshold = wanted.overrun_threshold;
}

void clear_violations(PortInfo& info, const PortInfo& wanted) noexcept {
  if (wanted.mkey_violations == 0) info.mkey_violations = 0;
  if (wanted.pkey_violations == 0) info.pkey_violations = 0;
  if (wanted.qkey_violations == 0) info.qkey_violations = 0;
}

/// The fields that belong to the node as a subnet manager sees it; ports of a switch other than 0
/// have none of them.
void write_management(Port& port, const PortInfo& wanted) noexcept {
  PortInfo& info = port.info;
  info.mkey = wanted.mkey;
  info.gid_prefix = wanted.gid_prefix;
  info.lid = wanted.lid;
  info.sm_lid = wanted.sm_lid;
  info.mkey_lease_seconds = wanted.mkey_lease_seconds;
  info.mkey_protection = wanted.mkey_protection;
  info.lmc = wanted.lmc;
  info.sm_level = wanted.sm_level;
  info.subnet_timeout = wanted.subnet_timeout;
  info.multicast_pkey_trap_suppression = wanted.multicast_pkey_trap_suppression;
  if (wanted.client_reregister) ++port.reregister_requests;
  clear_violations(info, wanted);
}

/// What the states in a Set ask of the link. A port that is switched off stays so until the Set
/// says Polling.
std::optional<LinkOrder::Kind> order_of(const PortInfo& info, const PortInfo& wanted) noexcept {
  const bool is_off = info.physical_state == PortPhysicalState::kDisabled ||
                      info.physical_state == PortPhysicalState::kSleep;
  switch (wanted.physical_state) {
    case PortPhysicalState::kDisabled:
      return LinkOrder::Kind::kDisable;
    case PortPhysicalState::kSleep:
      return LinkOrder::Kind::kSleep;
    case PortPhysicalState::kPolling:
      return is_off ? LinkOrder::Kind::kPoll : LinkOrder::Kind::kRetrain;
    default:
      break;
  }
  if (wanted.state == PortState::kDown && !is_off) return LinkOrder::Kind::kRetrain;
  return std::nullopt;
}

void write_link(const PortChange& change, std::uint8_t number, SmpOutcome& outcome) noexcept {
  write_speeds(change);
  write_lanes(change);
  if (change.wanted.state >= PortState::kArmed) change.port.info.state = change.wanted.state;
  if (const auto kind = order_of(change.port.info, change.wanted)) {
    outcome.order = LinkOrder{.port = number, .kind = *kind};
  }
}

bool is_about_extended_speeds(const AttributeAccess& access) noexcept {
  return !access.node.hides_extended_speeds() ||
         (access.modifier & PortInfo::kExtendedSpeedsModifier) != 0;
}

SmpStatus write_port_info(const AttributeAccess& access, std::uint8_t number,
                          const PortInfo& wanted) {
  Port& port = access.node.port(number);
  const PortChange change{
      .port = port, .wanted = wanted, .has_extended_speeds = is_about_extended_speeds(access)};
  const bool has_link = !access.node.is_switch() || number != 0;
  const bool is_managed = !access.node.is_external(number);
  if (has_link && !is_link_change(change)) return SmpStatus::kInvalidField;
  if (is_managed && !is_management_change(wanted)) return SmpStatus::kInvalidField;
  if (has_link) write_link(change, number, access.outcome);
  if (is_managed) write_management(port, wanted);
  access.outcome.changed_port = number;
  return SmpStatus::kOk;
}

/// The port as a manager may see it: without its M_Key, where the protection says so, and where the
/// node is strict, without the speeds that it does not ask for.
PortInfo shown(const AttributeAccess& access, const Port& port) {
  PortInfo info = port.info;
  info.local_port = access.ingress;
  // A Set that was admitted knows the key: the one before it, or the one that it has written.
  if (!access.is_set && !MKeyGuard::shows(info, access.mkey)) info.mkey = wire::MKey{};
  if (is_about_extended_speeds(access)) return info;
  info.extended_speed_active = info.extended_speed_supported = info.extended_speed_enabled = 0;
  info.speed_2_active = info.speed_2_supported = info.speed_2_enabled = 0;
  return info;
}

}  // namespace

SmpStatus access_port_info(const AttributeAccess& access) {
  const auto number = access.port_of(access.modifier & ~PortInfo::kExtendedSpeedsModifier);
  if (!number) return SmpStatus::kInvalidField;
  SmpStatus status = SmpStatus::kOk;
  const PortInfo wanted = PortInfo::from(access.data);
  if (access.is_set) status = write_port_info(access, *number, wanted);
  PortInfo info = shown(access, access.node.port(*number));
  // A Set confirms the bit; it is never set otherwise.
  info.client_reregister = access.is_set && status == SmpStatus::kOk && wanted.client_reregister;
  info.emit(access.data);
  return status;
}

}  // namespace verbatim::fabric
