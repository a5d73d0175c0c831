// SPDX-License-Identifier: Apache-2.0
#include "link/direction_rules.h"

#include <algorithm>

namespace verbatim::link {
namespace {

/// Whether a receiver does not notice that this bit has changed: octet 4 is outside of the ICRC,
/// and a change of the other two looks like another IPv4 header (wire/crc/icrc.h).
bool passes_unnoticed(std::size_t bit) noexcept {
  return bit / 8 == 4 || bit == 8 * 173 + 3 || bit == 8 * 1834 + 6;
}

bool is_for(FaultRule::Direction direction, DirectionRules::Side side) noexcept {
  return direction == FaultRule::Direction::kBoth ||
         (direction == FaultRule::Direction::kIn) == (side == DirectionRules::Side::kIn);
}

}  // namespace

DirectionRules::DirectionRules(const FaultRules& rules, Side side) {
  Prng seeds(rules.seed);
  for (const FaultRule& rule : rules.rules) {
    const std::uint64_t for_in = seeds.next();
    const std::uint64_t for_out = seeds.next();
    if (!is_for(rule.direction, side)) continue;
    rules_.push_back({.rule = rule, .prng = Prng(side == Side::kIn ? for_in : for_out)});
  }
}

bool DirectionRules::looks_at(const FaultRule& rule, const Subject& packet) noexcept {
  if (packet.octets == 0 || !rule.opcodes[packet.opcode]) return false;
  return !rule.qp || packet.dest_qp == rule.qp;
}

DirectionRules::Fate DirectionRules::judge(const Subject& packet) {
  Fate fate;
  for (RuleState& state : rules_) {
    if (fate.is_dropped) break;
    if (looks_at(state.rule, packet) && hits(state)) apply(state, packet.octets, fate);
  }
  return fate;
}

/// Draws a number for every packet that the rule looks at, so that options that count do not change
/// which packets a probability hits.
bool DirectionRules::hits(RuleState& state) noexcept {
  const FaultRule& rule = state.rule;
  const bool has_luck = state.prng.below(FaultRule::kAlways) < rule.chance;
  const std::uint64_t number = ++state.seen;
  if (number <= rule.after || number - rule.after > rule.first) return false;
  return (number - rule.after) % rule.every == 0 && has_luck;
}

void DirectionRules::apply(RuleState& state, std::size_t packet_octets, Fate& fate) {
  const FaultRule& rule = state.rule;
  switch (rule.action) {
    case FaultRule::Action::kDrop:
      fate.is_dropped = true;
      return;
    case FaultRule::Action::kDuplicate:
      ++fate.copies;
      return;
    case FaultRule::Action::kReorder:
      fate.overtaken_by = std::max(fate.overtaken_by, rule.by);
      return;
    case FaultRule::Action::kCorrupt: {
      const std::size_t bits = packet_octets * 8;
      std::size_t bit = static_cast<std::size_t>(state.prng.below(bits));
      while (passes_unnoticed(bit)) bit = (bit + 1) % bits;
      fate.flipped_bits.push_back(bit);
      return;
    }
    case FaultRule::Action::kDelay: {
      const auto low = static_cast<std::uint64_t>(rule.delay_min.count());
      const auto high = static_cast<std::uint64_t>(rule.delay_max.count());
      const Duration delay(static_cast<std::int64_t>(state.prng.between(low, high)));
      fate.delay = fate.delay.value_or(Duration(0)) + delay;
      return;
    }
  }
}

}  // namespace verbatim::link
