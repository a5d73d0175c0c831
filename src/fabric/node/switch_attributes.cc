// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/attribute_access.h"

namespace verbatim::fabric {
namespace {

using wire::SmpStatus;

constexpr SmpStatus status_of(bool is_done) noexcept {
  return is_done ? SmpStatus::kOk : SmpStatus::kInvalidField;
}

/// The writable fields of SwitchInfo (IBA Vol 1, 14.2.5.4). PortStateChange is cleared by
/// writing 1.
SmpStatus write_switch_info(wire::SwitchInfo& info, const wire::SwitchInfo& wanted) noexcept {
  if (wanted.linear_top >= info.linear_limit) return SmpStatus::kInvalidField;
  info.linear_top = wanted.linear_top;
  info.default_port = wanted.default_port;
  info.default_multicast_primary_port = wanted.default_multicast_primary_port;
  info.default_multicast_not_primary_port = wanted.default_multicast_not_primary_port;
  info.life_time = wanted.life_time;
  if (wanted.port_state_change) info.port_state_change = false;
  info.multicast_top = wanted.multicast_top;
  return SmpStatus::kOk;
}

}  // namespace

SmpStatus access_switch_info(const AttributeAccess& access) {
  wire::SwitchInfo& info = access.node.switch_part().info;
  SmpStatus status = SmpStatus::kOk;
  if (access.is_set) status = write_switch_info(info, wire::SwitchInfo::from(access.data));
  info.emit(access.data);
  return status;
}

SmpStatus access_linear_table(const AttributeAccess& access) {
  ForwardingTables& tables = access.node.switch_part().tables;
  return status_of(access.is_set ? tables.write_linear(access.modifier, access.data)
                                 : tables.read_linear(access.modifier, access.data));
}

SmpStatus access_multicast_table(const AttributeAccess& access) {
  ForwardingTables& tables = access.node.switch_part().tables;
  return status_of(access.is_set ? tables.write_multicast(access.modifier, access.data)
                                 : tables.read_multicast(access.modifier, access.data));
}

}  // namespace verbatim::fabric
