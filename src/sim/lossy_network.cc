// SPDX-License-Identifier: Apache-2.0
#include "sim/lossy_network.h"

#include <algorithm>

namespace verbatim::sim {

Fate LossyNetwork::send(Instant now, Frame frame) {
  // All random numbers are drawn for every frame, so that one fault does not change later ones.
  const bool lost = prng_.per_mille(faults_.loss_per_mille);
  const bool twice = prng_.per_mille(faults_.duplicate_per_mille);
  const bool damaged = prng_.per_mille(faults_.corrupt_per_mille);
  if (cuts_.contains({frame.source.octets, frame.destination.octets})) return Fate::kCut;
  if (lost) return Fate::kLost;
  const auto leaves = departure(now, frame);
  if (!leaves) return Fate::kOverflowed;
  if (twice) deliver(*leaves, frame);
  if (damaged) corrupt(frame);
  deliver(*leaves, std::move(frame));
  if (damaged) return Fate::kCorrupted;
  return twice ? Fate::kDuplicated : Fate::kDelivered;
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

void LossyNetwork::deliver(Instant now, Frame frame) {
  const auto extra = static_cast<std::uint64_t>(faults_.jitter.count());
  const Duration jitter{static_cast<Duration::rep>(prng_.below(extra + 1))};
  const bool overtaken =
      faults_.reorder_per_mille > 0 && prng_.per_mille(faults_.reorder_per_mille);
  const Duration wait = overtaken ? faults_.reorder_delay : Duration(0);
  in_flight_.emplace(now + faults_.delay + jitter + wait, std::move(frame));
}

void LossyNetwork::corrupt(Frame& frame) noexcept {
  const std::uint64_t flips = prng_.between(1, 4);
  for (std::uint64_t i = 0; i < flips; ++i) {
    std::byte& victim = frame.octets[prng_.below(frame.octets.size())];
    victim ^= std::byte{1} << static_cast<unsigned>(prng_.below(8));
  }
}

std::optional<Frame> LossyNetwork::take_arrived(Instant now) {
  if (in_flight_.empty() || in_flight_.begin()->first > now) return std::nullopt;
  Frame frame = std::move(in_flight_.begin()->second);
  in_flight_.erase(in_flight_.begin());
  return frame;
}

Instant LossyNetwork::next_arrival() const noexcept {
  return in_flight_.empty() ? Instant::never() : in_flight_.begin()->first;
}

std::optional<Frame> LossyNetwork::take_arrived_at(const wire::Gid& address, Instant now) {
  const auto found = std::ranges::find_if(
      in_flight_, [&](const auto& entry) { return entry.second.destination == address; });
  if (found == in_flight_.end() || found->first > now) return std::nullopt;
  Frame frame = std::move(found->second);
  in_flight_.erase(found);
  return frame;
}

Instant LossyNetwork::next_arrival_at(const wire::Gid& address) const noexcept {
  const auto found = std::ranges::find_if(
      in_flight_, [&](const auto& entry) { return entry.second.destination == address; });
  return found == in_flight_.end() ? Instant::never() : found->first;
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
