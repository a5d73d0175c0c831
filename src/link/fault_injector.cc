// SPDX-License-Identifier: Apache-2.0
#include "link/fault_injector.h"

#include <algorithm>

#include "base/byte_order.h"
#include "wire/headers/ids.h"

namespace verbatim::link {
namespace {

constexpr std::size_t kOctetsToDestQp = 8;  // of the BTH: opcode first, DestQP in 5 to 7

std::uint32_t dest_qp_of(std::span<const std::byte> packet) noexcept {
  return load_be_at<std::uint32_t>(packet.data() + 4) & 0x00ff'ffffU;
}

DirectionRules::Subject subject_of(std::span<const std::byte> packet) noexcept {
  DirectionRules::Subject subject{.octets = packet.size()};
  if (!packet.empty()) subject.opcode = std::to_integer<std::uint8_t>(packet[0]);
  if (packet.size() >= kOctetsToDestQp) subject.dest_qp = wire::QpNumber{dest_qp_of(packet)};
  return subject;
}

bool is_same_flow(std::span<const std::byte> one, std::span<const std::byte> other) noexcept {
  return one.size() >= kOctetsToDestQp && other.size() >= kOctetsToDestQp &&
         dest_qp_of(one) == dest_qp_of(other);
}

void flip(std::span<std::byte> octets, const std::vector<std::size_t>& bits) noexcept {
  for (const std::size_t bit : bits) octets[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace

FaultInjector::FaultInjector(const FaultRules& rules, std::optional<OwnNumbers> own)
    : own_(own),
      rules_in_(rules, DirectionRules::Side::kIn),
      rules_out_(rules, DirectionRules::Side::kOut) {}

/// Whether the packet passes now. Copies, and a packet that is held back, go to `waiting`.
bool FaultInjector::handle(Instant now, DirectionRules& rules, Waiting& waiting,
                           const Packet& packet) {
  const DirectionRules::Fate fate = rules.judge(subject_of(packet.octets));
  if (fate.is_dropped) {
    ++counters_.dropped;
    return false;
  }
  flip(packet.octets, fate.flipped_bits);
  counters_.corrupted += !fate.flipped_bits.empty();
  const auto hold = [&](Instant due, std::uint32_t overtaken_by) {
    if (waiting.size() >= kHeldMax) return false;
    waiting.push_back({.about = packet.about,
                       .identification = packet.identification,
                       .octets = {packet.octets.begin(), packet.octets.end()},
                       .due = due,
                       .overtaken_by = overtaken_by});
    return true;
  };
  bool is_held = false;
  const Instant due = now + fate.delay.value_or(Duration(0));
  if (fate.delay) {
    is_held = hold(due, 0);
    counters_.delayed += is_held;
  } else if (fate.overtaken_by != 0) {
    is_held = hold(now + kOvertakePatience, fate.overtaken_by);
    counters_.reordered += is_held;
  }
  for (std::uint32_t copy = 0; copy < fate.copies; ++copy) counters_.duplicated += hold(due, 0);
  if (is_held) return false;
  for (Held& other : waiting) {
    if (other.overtaken_by == 0 || !is_same_flow(other.octets, packet.octets)) continue;
    if (--other.overtaken_by == 0) other.due = now;
  }
  return true;
}

/// The packet that is due first; of several, the one that came first.
std::optional<FaultInjector::Held> FaultInjector::take_due(Instant now, Waiting& waiting) {
  const auto first = std::min_element(waiting.begin(), waiting.end(),
                                      [](const Held& a, const Held& b) { return a.due < b.due; });
  if (first == waiting.end() || first->due > now) return std::nullopt;
  Held held = std::move(*first);
  waiting.erase(first);
  return held;
}

bool FaultInjector::handle_outgoing(Instant now, const Outgoing& to, const Frame& packet) {
  const Incoming about{.source = to.source,
                       .destination = to.destination,
                       .source_port = to.source_port,
                       .traffic_class = to.traffic_class,
                       .hop_limit = to.hop_limit,
                       .local = to.local,
                       .flow_label = to.flow_label};
  return handle(now, rules_out_, waiting_out_,
                {.about = about, .identification = packet.identification, .octets = packet.octets});
}

std::optional<FaultInjector::Released> FaultInjector::poll_outgoing(Instant now) {
  auto held = take_due(now, waiting_out_);
  if (!held) return std::nullopt;
  return Released{.to = {.source = held->about.source,
                         .destination = held->about.destination,
                         .source_port = held->about.source_port,
                         .traffic_class = held->about.traffic_class,
                         .hop_limit = held->about.hop_limit,
                         .local = held->about.local,
                         .flow_label = held->about.flow_label},
                  .identification = held->identification,
                  .octets = std::move(held->octets)};
}

std::span<const Incoming> FaultInjector::handle_incoming(Instant now,
                                                         std::span<const Incoming> burst) {
  delivered_.clear();
  storage_.clear();
  for (const Incoming& incoming : burst) {
    incoming.for_each_packet(
        [&](std::span<const std::byte> octets) { take_in(now, incoming, octets); });
  }
  release_in(now);
  return delivered_;
}

bool FaultInjector::handle_forwarded(Instant now, const Incoming& about,
                                     std::span<std::byte> octets) {
  Incoming alone = about;
  alone.octets = {};
  return handle(now, rules_in_, waiting_in_, {.about = alone, .octets = octets});
}

/// The queue pair numbers of management datagrams and of multicast do not name a process.
bool FaultInjector::is_for_another_process(std::span<const std::byte> packet) const noexcept {
  if (!own_ || packet.size() < kOctetsToDestQp) return false;
  const wire::QpNumber number{dest_qp_of(packet)};
  return number != wire::QpNumber::kGsi && number != wire::QpNumber::kMulticast &&
         static_cast<std::uint32_t>(number) - own_->first >= own_->count;
}

/// A copy of one packet of the burst, without the train that it may have been part of.
void FaultInjector::take_in(Instant now, const Incoming& about, std::span<const std::byte> octets) {
  storage_.emplace_back(octets.begin(), octets.end());
  Incoming alone = about;
  alone.octets = {};
  alone.segment_octets = 0;
  if (is_for_another_process(octets) ||
      handle(now, rules_in_, waiting_in_, {.about = alone, .octets = storage_.back()})) {
    alone.octets = storage_.back();
    delivered_.push_back(alone);
  } else {
    storage_.pop_back();
  }
  release_in(now);
}

void FaultInjector::release_in(Instant now) {
  while (auto held = take_due(now, waiting_in_)) {
    storage_.push_back(std::move(held->octets));
    delivered_.push_back(held->about);
    delivered_.back().octets = storage_.back();
  }
}

Instant FaultInjector::next_due() const noexcept {
  Instant due = Instant::never();
  for (const Waiting* waiting : {&waiting_in_, &waiting_out_}) {
    for (const Held& held : *waiting) due = std::min(due, held.due);
  }
  return due;
}

}  // namespace verbatim::link
