// SPDX-License-Identifier: Apache-2.0
#include "sim/lossy_network.h"

#include <algorithm>

namespace verbatim::sim {

Fate LossyNetwork::send(Instant now, Frame frame) {
  const auto [fate, comes_twice, leaves] = choose(now, frame);
  if (observer_ != nullptr) observer_->handle_frame(now, frame, fate);
  if (fate == Fate::kCut || fate == Fate::kLost || fate == Fate::kOverflowed) return fate;
  if (comes_twice) deliver(leaves, frame);
  if (fate == Fate::kCorrupted) corrupt(frame);
  deliver(leaves, std::move(frame));
  return fate;
}

LossyNetwork::Choice LossyNetwork::choose(Instant now, const Frame& frame) {
  // All random numbers are drawn for every frame, so that one fault does not change later ones.
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
std::optional<Instant> LossyNetwork::departure(Instant now, const Frame& frame) {
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

void LossyNetwork::deliver(Instant leaves, Frame frame) {
  const Address destination = frame.destination.octets;
  if (!frame.destination.is_multicast()) {
    return deliver_at(destination, leaves, std::move(frame));
  }
  const auto group = groups_.find(destination);
  if (group == groups_.end()) return;
  for (const Address& member : group->second) deliver_at(member, leaves, frame);
}

void LossyNetwork::deliver_at(Address address, Instant leaves, Frame frame) {
  const auto extra = static_cast<std::uint64_t>(faults_.jitter.count());
  const Duration jitter{static_cast<Duration::rep>(prng_.below(extra + 1))};
  const bool overtaken =
      faults_.reorder_per_mille > 0 && prng_.per_mille(faults_.reorder_per_mille);
  const Duration wait = overtaken ? faults_.reorder_delay : Duration(0);
  in_flight_[address].emplace(Arrival(leaves + faults_.delay + jitter + wait, deliveries_++),
                              std::move(frame));
}

void LossyNetwork::corrupt(Frame& frame) noexcept {
  frame.is_damaged = true;
  const std::uint64_t flips = prng_.between(1, 4);
  for (std::uint64_t i = 0; i < flips; ++i) {
    std::byte& victim = frame.octets[prng_.below(frame.octets.size())];
    victim ^= std::byte{1} << static_cast<unsigned>(prng_.below(8));
  }
}

std::optional<Frame> LossyNetwork::take_first(InFlight::iterator at, Instant now) {
  if (at == in_flight_.end()) return std::nullopt;
  const auto first = at->second.begin();
  if (first->first.first > now) return std::nullopt;
  Frame frame = std::move(first->second);
  at->second.erase(first);
  if (at->second.empty()) in_flight_.erase(at);
  return frame;
}

std::optional<Frame> LossyNetwork::take_arrived(Instant now) {
  return take_first(std::ranges::min_element(in_flight_, {},
                                             [](const InFlight::value_type& entry) {
                                               return entry.second.begin()->first;
                                             }),
                    now);
}

Instant LossyNetwork::next_arrival() const noexcept {
  Instant next = Instant::never();
  for (const auto& [address, frames] : in_flight_) {
    next = std::min(next, frames.begin()->first.first);
  }
  return next;
}

std::optional<Frame> LossyNetwork::take_arrived_at(const wire::Gid& address, Instant now) {
  return take_first(in_flight_.find(address.octets), now);
}

Instant LossyNetwork::next_arrival_at(const wire::Gid& address) const noexcept {
  const auto found = in_flight_.find(address.octets);
  return found == in_flight_.end() ? Instant::never() : found->second.begin()->first.first;
}

void LossyNetwork::join(const wire::Gid& group, const wire::Gid& address) {
  groups_[group.octets].insert(address.octets);
}

void LossyNetwork::leave(const wire::Gid& group, const wire::Gid& address) {
  groups_[group.octets].erase(address.octets);
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
