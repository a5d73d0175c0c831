// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "fabric/mads/agent_number.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// What two messages that an agent has sent and that are not finished may not have in common.
struct SendKey {
  AgentNumber agent{};
  wire::TransactionId transaction{};
  wire::MgmtClass mgmt_class{};
  bool is_response = false;
  // Of responses: two requesters may choose the same transaction. 0 for requests.
  wire::Lid destination{};
  friend auto operator<=>(const SendKey&, const SendKey&) noexcept = default;
};

/// What tells the messages apart that an agent receives in segments.
struct ReceptionKey {
  AgentNumber agent{};
  wire::TransactionId transaction{};
  wire::MgmtClass mgmt_class{};
  wire::MadMethod method{};
  wire::Lid source{};
  wire::QpNumber source_qp{};
  friend auto operator<=>(const ReceptionKey&, const ReceptionKey&) noexcept = default;
};

/// Spreads keys over the buckets of a table. Numbers of agents and transactions count up, so the
/// multiplication suffices.
struct MadKeyHash {
  [[nodiscard]] std::size_t operator()(const SendKey& key) const noexcept {
    return mix(key.agent, key.transaction, static_cast<std::uint64_t>(key.destination));
  }
  [[nodiscard]] std::size_t operator()(const ReceptionKey& key) const noexcept {
    return mix(key.agent, key.transaction, static_cast<std::uint64_t>(key.source));
  }

 private:
  [[nodiscard]] static std::size_t mix(AgentNumber agent, wire::TransactionId transaction,
                                       std::uint64_t lid) noexcept {
    const auto x = static_cast<std::uint64_t>(transaction) ^
                   (static_cast<std::uint64_t>(agent) << 40) ^ (lid << 20);
    return static_cast<std::size_t>((x * 0x9e37'79b9'7f4a'7c15U) >> 17);
  }
};

}  // namespace verbatim::fabric
