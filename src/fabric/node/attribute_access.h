// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "fabric/node/node.h"
#include "fabric/node/subnet_agent.h"
#include "wire/headers/smp.h"
#include "wire/management/attribute_data.h"

namespace verbatim::fabric {

/// One Get or Set of an attribute: what the agent hands to the function that knows the attribute.
struct AttributeAccess {
  Instant now{};
  Node& node;
  std::uint8_t ingress = 0;
  bool is_set = false;
  std::uint32_t modifier = 0;
  wire::MKey mkey{};         // that the request presents
  wire::AttributeData data;  // of a Set: the new value; then the resulting one
  SmpOutcome& outcome;

  /// The port that a modifier names, where 0 means the port of an adapter that the request has
  /// arrived at; empty: the node has no such port.
  [[nodiscard]] std::optional<std::uint8_t> port_of(std::uint32_t number) const noexcept {
    if (number > node.port_count()) return std::nullopt;
    if (number == 0) return node.management_port(ingress);
    return static_cast<std::uint8_t>(number);
  }
};

// Each returns the status of the answer. port_attributes.cc:
[[nodiscard]] wire::SmpStatus access_port_info(const AttributeAccess& access);
// table_attributes.cc
[[nodiscard]] wire::SmpStatus access_guid_info(const AttributeAccess& access);
[[nodiscard]] wire::SmpStatus access_pkey_table(const AttributeAccess& access);
[[nodiscard]] wire::SmpStatus access_lane_map(const AttributeAccess& access);
[[nodiscard]] wire::SmpStatus access_arbitration(const AttributeAccess& access);
// switch_attributes.cc; only for switches
[[nodiscard]] wire::SmpStatus access_switch_info(const AttributeAccess& access);
[[nodiscard]] wire::SmpStatus access_linear_table(const AttributeAccess& access);
[[nodiscard]] wire::SmpStatus access_multicast_table(const AttributeAccess& access);

}  // namespace verbatim::fabric
