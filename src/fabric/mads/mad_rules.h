// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fabric/mads/agent_number.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// Whether a datagram answers another one (IBA Vol 1, 13.4.5): bit 7 of the method says so; the
/// repression of a trap and the answers of baseboard management are answers without that bit.
[[nodiscard]] inline bool is_response(const wire::MadView& mad) noexcept {
  constexpr std::uint8_t kBaseboard = 0x05;
  if ((static_cast<std::uint8_t>(mad.method()) & 0x80) != 0) return true;
  if (mad.method() == wire::MadMethod::kTrapRepress) return true;
  return static_cast<std::uint8_t>(mad.mgmt_class()) == kBaseboard &&
         (mad.attribute_modifier() & 1) != 0;
}

/// The agent that a transaction names.
[[nodiscard]] inline AgentNumber agent_of(wire::TransactionId transaction) noexcept {
  return AgentNumber{static_cast<std::uint32_t>(static_cast<std::uint64_t>(transaction) >> 32)};
}
/// The same transaction, of this agent.
[[nodiscard]] inline wire::TransactionId with_agent(wire::TransactionId transaction,
                                                    AgentNumber agent) noexcept {
  return wire::TransactionId{(static_cast<std::uint64_t>(agent) << 32) |
                             (static_cast<std::uint64_t>(transaction) & 0xffff'ffffU)};
}

}  // namespace verbatim::fabric
