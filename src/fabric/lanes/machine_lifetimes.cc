// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "fabric/machine.h"

namespace verbatim::fabric {
namespace {

using wire::PortCounter;

constexpr std::int64_t kLifetimeUnit = 4096;   // nanoseconds
constexpr std::uint8_t kLifetimeCodeMax = 19;  // above it for ever
constexpr std::int64_t kStallQueueLives = 8;   // how long a stalled lane discards all

/// 4.096 us * 2^code (IBA Vol 1, 18.2.5.4).
Duration lifetime_of(std::uint8_t code, std::uint32_t slowdown) noexcept {
  if (code > kLifetimeCodeMax) return Duration::max();
  return Duration((kLifetimeUnit << code) * std::max<std::int64_t>(slowdown, 1));
}

Instant end_of(Instant begin, Duration lifetime) noexcept {
  return lifetime == Duration::max() ? Instant::never() : begin + lifetime;
}

}  // namespace

/// An adapter's packets wait for ever: the lifetimes are those of switches.
Fabric::Machine::Lifetimes Fabric::Machine::lifetimes_of(PortEnd end) const noexcept {
  const Node& node = places_[end.node].node;
  if (!node.is_switch()) return {Duration::max(), Duration::max(), 0};
  const wire::PortInfo& info = node.port(end.port).info;
  return {.queue = lifetime_of(info.queue_life, options_.slowdown),
          .in_switch = lifetime_of(node.switch_part().info.life_time, options_.slowdown),
          .stall_count = info.vl_stall_count};
}

/// A packet waits in a port. The alarm of the port is that of the packet that would be discarded
/// first; while packets leave it comes too early, and is set anew.
void Fabric::Machine::begin_lifetime(Instant now, LinkIndex at) {
  if (has_lifetime_[at] != 0) return;
  const Lifetimes lifetimes = lifetimes_of(ends_[at]);
  const Instant end = end_of(now, std::min(lifetimes.queue, lifetimes.in_switch));
  if (end == Instant::never()) return;
  has_lifetime_[at] = 1;
  lifetimes_.set(at, end);
}

void Fabric::Machine::end_lifetimes(Instant now, LinkIndex at) {
  Instant next = end_stalls(now, at);
  for (LinkLayer::Lanes left = links_.waiting(at) & LinkLayer::kAllDataLanes; left != 0;
       left &= static_cast<LinkLayer::Lanes>(left - 1)) {
    next = std::min(next,
                    end_lifetimes_in(now, at, static_cast<std::uint8_t>(std::countr_zero(left))));
  }
  has_lifetime_[at] = next == Instant::never() ? 0 : 1;
  if (has_lifetime_[at] != 0) {
    lifetimes_.set(at, next);
  } else {
    lifetimes_.set(at, std::nullopt);
  }
}

/// Returns when the next packet of the lane would be discarded.
Instant Fabric::Machine::end_lifetimes_in(Instant now, LinkIndex at, std::uint8_t lane) {
  const Lifetimes lifetimes = lifetimes_of(ends_[at]);
  PortCounts& counts = port(ends_[at]).counts;
  std::uint8_t& drops = life_drops_[at * LinkLayer::kLanes + lane];
  while (const Parcel* first = links_.first_of(at, lane)) {
    const Instant queue_end = end_of(links_.first_since(at, lane), lifetimes.queue);
    const Instant switch_end = end_of(first->entered, lifetimes.in_switch);
    const Instant end = std::min(queue_end, switch_end);
    if (end > now) return end;
    const bool is_queue_life = queue_end <= now;
    counts.add(is_queue_life ? PortCounter::kQueueLifeDiscards : PortCounter::kLifetimeDiscards);
    discard(now, at, is_queue_life ? DropReason::kQueueLife : DropReason::kSwitchLife,
            *links_.remove_first(now, at, lane));
    if (!is_queue_life) continue;
    if (drops != 0xff) ++drops;
    if (drops == lifetimes.stall_count) {
      stall(now, at, lane);
      return stalls_.back().until;
    }
  }
  return Instant::never();
}

/// The lane discards all that is in it and all that comes (18.2.5.4, VLStallCount).
void Fabric::Machine::stall(Instant now, LinkIndex at, std::uint8_t lane) {
  const Lifetimes lifetimes = lifetimes_of(ends_[at]);
  stalls_.push_back({.until = now + lifetimes.queue * kStallQueueLives, .at = at, .lane = lane});
  while (const auto parcel = links_.remove_first(now, at, lane)) {
    port(ends_[at]).counts.add(PortCounter::kQueueLifeDiscards);
    discard(now, at, DropReason::kLaneStalled, *parcel);
  }
  links_.set_stalled(at, lane, true);
}

/// Returns when the next lane of the port that is stalled ends its stall.
Instant Fabric::Machine::end_stalls(Instant now, LinkIndex at) {
  Instant next = Instant::never();
  std::erase_if(stalls_, [&](const Stall& each) {
    if (each.at != at) return false;
    if (each.until > now) {
      next = std::min(next, each.until);
      return false;
    }
    links_.set_stalled(at, each.lane, false);
    life_drops_[at * LinkLayer::kLanes + each.lane] = 0;
    return true;
  });
  return next;
}

bool Fabric::Machine::is_stalled(LinkIndex at, std::uint8_t lane) const noexcept {
  return std::ranges::any_of(stalls_,
                             [&](const Stall& each) { return each.at == at && each.lane == lane; });
}

}  // namespace verbatim::fabric
