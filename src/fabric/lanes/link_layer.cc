// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/link_layer.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace verbatim::fabric {

LinkLayer::LinkLayer(std::size_t ports, const Rules& rules)
    : rules_(rules), links_(ports), lanes_(ports * kLanes), wheel_(ports) {
  for (Lane& lane : lanes_) lane.credits = LaneCredits(rules.lane_blocks);
}

void LinkLayer::connect(LinkIndex a, LinkIndex b) noexcept {
  links_[a].peer = b;
  links_[b].peer = a;
}

void LinkLayer::set_rate(LinkIndex at, const LinkRate& rate) noexcept {
  links_[at].clock.set_rate(rate, rules_.slowdown);
}

void LinkLayer::set_lanes(LinkIndex at, Lanes lanes, const Port& port) {
  Link& link = links_[at];
  link.arbiter.set_tables(port.high_arbitration, port.low_arbitration, port.info.vl_high_limit);
  link.lanes = lanes | kManagementBit;
  find_served(at);
}

void LinkLayer::set_stalled(LinkIndex at, std::uint8_t number, bool is_stalled) {
  const auto bit = static_cast<Lanes>(1U << number);
  Lanes& stalled = links_[at].stalled;
  stalled = static_cast<Lanes>(is_stalled ? stalled | bit : stalled & ~bit);
  find_served(at);
}

void LinkLayer::find_served(LinkIndex at) {
  Link& link = links_[at];
  link.served =
      static_cast<Lanes>((link.lanes & link.arbiter.served() & ~link.stalled) | kManagementBit);
  if (link.waiting != 0) give_turn(at);
}

void LinkLayer::begin(LinkIndex at) noexcept {
  links_[at].clock.reset();
  for (std::uint8_t number = 0; number < kDataLanes; ++number) lane(at, number).credits.begin();
}

// ---- Packets that wait ----

void LinkLayer::give_turn(LinkIndex at) {
  if (links_[at].has_turn || links_[at].is_scheduled) return;
  links_[at].has_turn = true;
  turns_.push(at);
}

void LinkLayer::schedule(Instant now, LinkIndex at) {
  Link& link = links_[at];
  if (link.is_scheduled) return;
  link.is_scheduled = true;
  wheel_.add(now, at, Instant::at(link.clock.busy_until().since_start() - rules_.clock_grain));
}

void LinkLayer::handle_due() {
  const LinkIndex at = wheel_.pop();
  links_[at].is_scheduled = false;
  if (links_[at].waiting != 0) give_turn(at);
}

void LinkLayer::wait(Instant now, LinkIndex at, std::uint8_t number, const Parcel& parcel) {
  std::uint32_t entry = free_parcel_;
  if (entry == kNone) {
    entry = static_cast<std::uint32_t>(parcels_.size());
    parcels_.emplace_back();
  } else {
    free_parcel_ = parcels_[entry].next;
  }
  parcels_[entry].parcel = parcel;
  parcels_[entry].next = kNone;
  Lane& lane = this->lane(at, number);
  if (lane.first == kNone) {
    lane.first = entry;
    lane.first_words = parcel.words;
    lane.first_since = now;
  } else {
    parcels_[lane.last].next = entry;
  }
  lane.last = entry;
  ++lane.packets;
  lane.blocks += blocks_of(parcel.words);
  Link& link = links_[at];
  link.waiting |= static_cast<Lanes>(1U << number);
  ++link.packets;
  give_turn(at);
}

Parcel LinkLayer::pop(Instant now, LinkIndex at, std::uint8_t number) noexcept {
  Lane& lane = this->lane(at, number);
  Link& link = links_[at];
  const std::uint32_t entry = lane.first;
  const Parcel parcel = parcels_[entry].parcel;
  lane.first = parcels_[entry].next;
  lane.first_since = now;
  --lane.packets;
  lane.blocks -= blocks_of(parcel.words);
  --link.packets;
  if (lane.first == kNone) {
    link.waiting &= static_cast<Lanes>(~(1U << number));
  } else {
    lane.first_words = parcels_[lane.first].parcel.words;
  }
  parcels_[entry].next = free_parcel_;
  free_parcel_ = entry;
  return parcel;
}

/// Those whose first packet could leave, if the link is free.
LinkLayer::Lanes LinkLayer::ready_lanes(LinkIndex at) const noexcept {
  Lanes ready = 0;
  const Link& link = links_[at];
  for (Lanes left = link.waiting & link.served; left != 0; left &= static_cast<Lanes>(left - 1)) {
    const auto number = static_cast<std::uint8_t>(std::countr_zero(left));
    const Lane& each = lane(at, number);
    if (number == kManagement || each.credits.may_send(blocks_of(each.first_words))) {
      ready |= static_cast<Lanes>(1U << number);
    }
  }
  return ready;
}

std::optional<LinkLayer::Departure> LinkLayer::take_parcel(Instant now, LinkIndex at) {
  Link& link = links_[at];
  if (link.waiting == 0) return std::nullopt;
  if (!link.clock.is_free(now, rules_.clock_grain)) {
    schedule(now, at);
    return std::nullopt;
  }
  const Lanes ready = ready_lanes(at);
  if (ready == 0) {
    if (link.blocked_since == Instant::never()) link.blocked_since = now;
    return std::nullopt;
  }
  end_block(now, link);
  const bool is_management = (ready & kManagementBit) != 0;
  const std::uint8_t number = is_management ? kManagement : *link.arbiter.choose(ready);
  const Parcel parcel = pop(now, at, number);
  send(now, at, number, parcel.words);
  if (!is_management) link.arbiter.charge(blocks_of(parcel.words));
  return Departure{.parcel = parcel, .lane = number};
}

std::optional<Parcel> LinkLayer::remove_first(Instant now, LinkIndex at, std::uint8_t number) {
  if (lane(at, number).first == kNone) return std::nullopt;
  const Parcel parcel = pop(now, at, number);
  if (links_[at].waiting == 0) {
    end_block(now, links_[at]);
  } else {
    give_turn(at);
  }
  return parcel;
}

const Parcel* LinkLayer::first_of(LinkIndex at, std::uint8_t number) const noexcept {
  const std::uint32_t first = lane(at, number).first;
  return first == kNone ? nullptr : &parcels_[first].parcel;
}

// ---- Receive buffers ----

Hold LinkLayer::share(const Hold& hold) {
  std::uint32_t index = static_cast<std::uint32_t>(shares_.size());
  if (free_shares_.empty()) {
    shares_.emplace_back();
  } else {
    index = free_shares_.back();
    free_shares_.pop_back();
  }
  shares_[index] = {.hold = hold, .users = 1};
  return {.at = index};
}

void LinkLayer::release_shared(const Hold& shared) {
  Share& share = shares_[shared.at];
  if (--share.users > 0) return;
  free_shares_.push_back(shared.at);
  release(share.hold);
}

// ---- What is there ----

LaneState LinkLayer::state_of(LinkIndex at, std::uint8_t number) const noexcept {
  const Lane& here = lane(at, number);
  LaneState state{.queued_packets = here.packets,
                  .queued_blocks = here.blocks,
                  .credits = here.credits.credits()};
  if (links_[at].peer != kNoLink) {
    state.buffered_blocks = lane(links_[at].peer, number).credits.buffered();
  }
  return state;
}

std::optional<LinkIndex> LinkLayer::lacks_credits_of(LinkIndex at,
                                                     std::uint8_t number) const noexcept {
  const Lane& here = lane(at, number);
  if (number == kManagement || here.first == kNone) return std::nullopt;
  if (here.credits.may_send(blocks_of(here.first_words))) return std::nullopt;
  return links_[at].peer;
}

void LinkLayer::end_block(Instant now, Link& link) noexcept {
  if (link.blocked_since == Instant::never()) return;
  link.waited_words += link.clock.words_in(now - link.blocked_since);
  link.blocked_since = Instant::never();
}

std::uint64_t LinkLayer::take_waited_words(Instant now, LinkIndex at) noexcept {
  Link& link = links_[at];
  if (link.blocked_since != Instant::never() && link.blocked_since < now) {
    end_block(now, link);
    link.blocked_since = now;
  }
  return std::exchange(link.waited_words, 0);
}

bool LinkLayer::is_quiet(LinkIndex at, std::uint8_t number) const noexcept {
  const Lane& here = lane(at, number);
  const LaneCredits& credits = here.credits;
  return here.packets == 0 && credits.buffered() == 0 &&
         credits.total_arrived() == credits.total_sent() &&
         credits.credits() == std::min<std::uint16_t>(credits.free_blocks(), LaneCredits::kWindow);
}

}  // namespace verbatim::fabric
