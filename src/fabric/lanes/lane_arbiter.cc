// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/lane_arbiter.h"

namespace verbatim::fabric {
namespace {

constexpr LaneArbiter::Lanes bit_of(std::uint8_t lane) noexcept {
  return static_cast<LaneArbiter::Lanes>(1U << lane);
}

}  // namespace

void LaneArbiter::fill(Table& table, const Port::Arbitration& octets) noexcept {
  table = {};
  for (std::size_t at = 0; at < table.entries.size(); ++at) {
    Entry& entry = table.entries[at];
    entry.lane = std::to_integer<std::uint8_t>(octets[2 * at] & std::byte{0x0f});
    entry.weight = std::to_integer<std::uint8_t>(octets[2 * at + 1]);
    if (entry.weight != 0) table.served |= bit_of(entry.lane);
  }
  table.left = table.entries.front().weight;
}

void LaneArbiter::set_tables(const Port::Arbitration& high, const Port::Arbitration& low,
                             std::uint8_t high_limit) noexcept {
  fill(high_, high);
  fill(low_, low);
  high_limit_ = high_limit;
  high_sent_ = 0;
}

/// A lane of `ready` must be in the table. Each entry is looked at once, and the present one once
/// more with all its weight.
std::uint8_t LaneArbiter::choose(Table& table, Lanes ready) noexcept {
  for (;;) {
    const Entry& entry = table.entries[table.at];
    if (table.left > 0 && (ready & bit_of(entry.lane)) != 0) return entry.lane;
    table.at = static_cast<std::uint8_t>((table.at + 1) % table.entries.size());
    table.left = table.entries[table.at].weight;
  }
}

std::optional<std::uint8_t> LaneArbiter::choose(Lanes ready) noexcept {
  const bool has_high = (ready & high_.served) != 0;
  const bool has_low = (ready & low_.served) != 0;
  if (!has_high && !has_low) return std::nullopt;
  is_high_ = has_high && !(has_low && is_limit_reached());
  return choose(is_high_ ? high_ : low_, ready);
}

void LaneArbiter::charge(std::uint16_t blocks) noexcept {
  Table& table = is_high_ ? high_ : low_;
  table.left = static_cast<std::int16_t>(table.left - blocks);
  if (!is_high_) {
    high_sent_ = 0;
  } else if (is_limit_reached()) {
    high_sent_ = blocks;  // no packet of the low table was there: a new turn
  } else {
    high_sent_ += blocks;
  }
}

}  // namespace verbatim::fabric
