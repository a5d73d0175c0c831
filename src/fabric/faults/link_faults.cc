// SPDX-License-Identifier: Apache-2.0
#include "fabric/faults/link_faults.h"

#include <algorithm>

namespace verbatim::fabric {
namespace {

link::FaultRules with_seed(link::FaultRules rules, std::uint64_t seed) {
  if (!rules.has_seed) rules.seed = seed;
  return rules;
}

}  // namespace

std::string objection_to(const link::FaultRules& rules) {
  for (const link::FaultRule& rule : rules.rules) {
    switch (rule.action) {
      case link::FaultRule::Action::kReorder:
        return "a link keeps the order of its packets, so `reorder` is no fault of it; `verbatim "
               "run --faults` has it for the packets of one program";
      case link::FaultRule::Action::kDuplicate:
        return "a link makes no second packet of one, so `duplicate` is no fault of it; `verbatim "
               "run --faults` has it for the packets of one program";
      case link::FaultRule::Action::kDrop:
      case link::FaultRule::Action::kCorrupt:
      case link::FaultRule::Action::kDelay:
        break;
    }
  }
  return {};
}

LinkFaults::LinkFaults(const link::FaultRules& rules, link::DirectionRules::Side side,
                       std::uint64_t seed)
    : rules_(with_seed(rules, seed), side) {}

LinkFaults::Fate LinkFaults::judge(Instant now, const PacketHeader& packet) {
  const link::DirectionRules::Fate fate =
      rules_.judge({.opcode = static_cast<std::uint8_t>(packet.opcode),
                    .dest_qp = packet.dest_qp,
                    .octets = std::size_t{4} * packet.words});
  if (fate.is_dropped) {
    ++counts_.dropped;
    return {.is_lost = true};
  }
  counts_.damaged += !fate.flipped_bits.empty();
  counts_.delayed += fate.delay.has_value();
  return {.is_damaged = !fate.flipped_bits.empty(),
          .delay = keep_order(now, fate.delay.value_or(Duration(0)))};
}

/// A packet behind a delayed one that is due at this very moment is later by the smallest time.
Duration LinkFaults::keep_order(Instant now, Duration delay) noexcept {
  const bool is_behind = last_ && *last_ >= now;
  if (!is_behind && delay == Duration(0)) return delay;
  const Instant arrival = now + std::max(delay, Duration(1));
  last_ = is_behind ? std::max(*last_, arrival) : arrival;
  return *last_ - now;
}

}  // namespace verbatim::fabric
