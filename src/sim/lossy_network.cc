// SPDX-License-Identifier: Apache-2.0
#include "sim/lossy_network.h"

#include <algorithm>

namespace verbatim::sim {

Fate LossyNetwork::send(Instant now, NetworkFrame frame) {
  const auto [fate, comes_twice, leaves] = choose(now, frame);
  if (observer_ != nullptr) observer_->handle_frame(now, frame, fate);
  if (fate == Fate::kCut || fate == Fate::kLost || fate == Fate::kOverflowed) return fate;
  if (comes_twice) deliver(leaves, frame);
  if (fate == Fate::kCorrupted) corrupt(frame);
  deliver(leaves, std::move(frame));
  return fate;
}

LossyNetwork::Choice LossyNetwork::choose(Instant now, const NetworkFrame& frame) {
  // These three are drawn for every frame, whatever its fate. The other random numbers are drawn
  // for the copies that are delivered, so a frame that is lost changes the later choices.
  const bool is_lost = prng_.per_mille(faults_.loss_per_mille);
  const bool comes_twice = prng_.per_mille(faults_.duplicate_per_mille);
  const bool is_corrupted = prng_.per_mille(faults_.corrupt_per_mille);
  if (cuts_.contains({frame.source.octets, frame.destination.octets})) return {Fate::kCut};
  if (is_lost) return {Fate::kLost};
  const auto leaves = departure(now, frame);
  if (!leaves) return {Fate::kOverflowed};
  const Fate otherwise = comes_twice ? Fate::kDuplicated : Fate::kDelivered;
  return {is_corrupted ? Fate::kCorrupted : otherwise, comes_twice, *leaves};
}

/// The time at which the frame has left the sender's buffer; nothing when the buffer is full.
std::optional<Instant> LossyNetwork::departure(Instant now, const NetworkFrame& frame) {
  if (faults_.octets_per_second == 0) return now;
  Instant& free = wire_free_[{frame.source.octets, frame.destination.octets}];
  const Instant begins = std::max(free, now);
  const auto waiting = static_cast<std::uint64_t>((begins - now).count()) *
                       faults_.octets_per_second / 1'000'000'000;
  if (faults_.buffer_octets != 0 && waiting + frame.octets.size() > faults_.buffer_octets) {
    return std::nullopt;
  }
  free = begins + Duration(frame.octets.size() * 1'000'000'000 / faults_.octets_per_second);
  return free;
}

void LossyNetwork::deliver(Instant leaves, NetworkFrame frame) {
  const Address destination = frame.destination.octets;
  if (!frame.destination.is_multicast()) {
    return deliver_at({destination, kAnySlot}, leaves, std::move(frame));
  }
  const auto group = groups_.find(destination);
  if (group == groups_.end()) return;
  for (const Receiver& member : group->second) deliver_at(member, leaves, frame);
}

void LossyNetwork::deliver_at(const Receiver& receiver, Instant leaves, NetworkFrame frame) {
  const auto extra = static_cast<std::uint64_t>(faults_.jitter.count());
  const Duration jitter{static_cast<Duration::rep>(prng_.below(extra + 1))};
  const bool overtaken =
      faults_.reorder_per_mille > 0 && prng_.per_mille(faults_.reorder_per_mille);
  const Duration wait = overtaken ? faults_.reorder_delay : Duration(0);
  in_flight_[receiver].emplace(Arrival(leaves + faults_.delay + jitter + wait, deliveries_++),
                               std::move(frame));
}

void LossyNetwork::corrupt(NetworkFrame& frame) noexcept {
  frame.is_damaged = true;
  const std::uint64_t flips = prng_.between(1, 4);
  for (std::uint64_t i = 0; i < flips; ++i) {
    std::byte& victim = frame.octets[prng_.below(frame.octets.size())];
    victim ^= std::byte{1} << static_cast<unsigned>(prng_.below(8));
  }
}

std::optional<NetworkFrame> LossyNetwork::take_first(InFlight::const_iterator at, Instant now) {
  if (at == in_flight_.end() || at->second.begin()->first.first > now) return std::nullopt;
  Frames& frames = in_flight_.at(at->first);
  NetworkFrame frame = std::move(frames.begin()->second);
  frames.erase(frames.begin());
  if (frames.empty()) in_flight_.erase(at);
  return frame;
}

std::optional<NetworkFrame> LossyNetwork::take_arrived(Instant now) {
  return take_first(std::ranges::min_element(in_flight_, {},
                                             [](const InFlight::value_type& entry) {
                                               return entry.second.begin()->first;
                                             }),
                    now);
}

Instant LossyNetwork::next_arrival() const noexcept {
  Instant next = Instant::never();
  for (const auto& [receiver, frames] : in_flight_) {
    next = std::min(next, frames.begin()->first.first);
  }
  return next;
}

LossyNetwork::InFlight::const_iterator LossyNetwork::first_at(const Place& place) const noexcept {
  const auto own = in_flight_.find({place.address.octets, place.slot});
  const auto any = in_flight_.find({place.address.octets, kAnySlot});
  if (own == in_flight_.end() || any == in_flight_.end())
    return own == in_flight_.end() ? any : own;
  return own->second.begin()->first < any->second.begin()->first ? own : any;
}

std::optional<NetworkFrame> LossyNetwork::take_arrived_at(const Place& place, Instant now) {
  return take_first(first_at(place), now);
}

Instant LossyNetwork::next_arrival_at(const Place& place) const noexcept {
  const auto first = first_at(place);
  return first == in_flight_.end() ? Instant::never() : first->second.begin()->first.first;
}

void LossyNetwork::join(const wire::Gid& group, const Place& place) {
  groups_[group.octets].insert({place.address.octets, place.slot});
}

void LossyNetwork::leave(const wire::Gid& group, const Place& place) {
  groups_[group.octets].erase({place.address.octets, place.slot});
}

void LossyNetwork::cut(const wire::Gid& a, const wire::Gid& b, bool is_cut) {
  for (const Direction& direction :
       {Direction{a.octets, b.octets}, Direction{b.octets, a.octets}}) {
    if (is_cut) {
      cuts_.insert(direction);
    } else {
      cuts_.erase(direction);
    }
  }
}

}  // namespace verbatim::sim
