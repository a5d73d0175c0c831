// SPDX-License-Identifier: Apache-2.0
#include "sim/network_link.h"

#include <algorithm>

#include "wire/crc/icrc.h"
#include "wire/headers/packet.h"

namespace verbatim::sim {

void NetworkLink::send(Instant now, link::Burst& burst) noexcept {
  if (!is_open()) return;
  for (link::Burst::Train& train : burst.trains()) {
    for (std::size_t number = 0; number < train.packets; ++number) {
      const auto packet = burst.packet(train, number);
      if (train.identification(number) != 0) {
        wire::change_identification(packet, train.identification(number), 0);
      }
      (void)network_.send(
          now, {.source = train.to.source,
                .destination = train.to.destination,
                .source_port = train.to.source_port,
                .hop_limit = train.to.hop_limit,
                .traffic_class = train.to.traffic_class,
                .octets = {packet.begin(),
                           packet.end()}});  // the link does not learn whether it is lost
    }
    train.note_all_sent();
    train.went_apart = true;
    counters_.packets_sent += train.packets;
    if (train.packets > 1) ++counters_.trains_sent;
  }
}

std::span<const link::Incoming> NetworkLink::receive(Instant now, Look /*look*/) noexcept {
  arrived_.clear();
  trains_.clear();
  incoming_.clear();
  if (!is_open()) return {};
  take_arrived(now);
  for (std::span<const NetworkFrame> left = arrived_; !left.empty();) {
    const NetworkFrame& first = left.front();
    const std::size_t packets = train_length(left);
    const bool is_train = packets > 1;
    incoming_.push_back({.source = first.source,
                         .destination = first.destination,
                         .source_port = first.source_port,
                         .traffic_class = first.traffic_class,
                         .hop_limit = first.hop_limit,
                         .octets = is_train ? join(left.first(packets)) : first.octets,
                         .segment_octets = is_train ? first.octets.size() : 0});
    if (is_train) ++counters_.trains_received;
    left = left.subspan(packets);
  }
  counters_.packets_received += arrived_.size();
  return incoming_;
}

void NetworkLink::take_arrived(Instant now) {
  while (auto frame = network_.take_arrived_at(place_, now)) {
    const auto seed =
        wire::IcrcSeed::roce_v2(frame->source, frame->destination, frame->source_port);
    if (frame->is_damaged && wire::verify_icrc(seed, frame->octets)) continue;
    arrived_.push_back(std::move(*frame));
  }
}

Instant NetworkLink::next_due() const noexcept {
  return is_open() ? network_.next_arrival_at(place_) : Instant::never();
}

/// How many of the frames at the front make a train: of one flow, and of one length but for the
/// last, which may be shorter.
std::size_t NetworkLink::train_length(std::span<const NetworkFrame> frames) const noexcept {
  const NetworkFrame& first = frames.front();
  const std::size_t each = first.octets.size();
  std::size_t octets = each;
  std::size_t count = 1;
  for (; count < std::min(frames.size(), link::Burst::kTrainPackets); ++count) {
    const NetworkFrame& next = frames[count];
    const bool is_alike = next.source == first.source && next.destination == first.destination &&
                          next.source_port == first.source_port &&
                          next.traffic_class == first.traffic_class &&
                          next.hop_limit == first.hop_limit;
    const std::size_t length = next.octets.size();
    octets += length;
    if (!is_alike || length > each || length < wire::Bth::kSize + wire::kIcrcSize ||
        octets > link::Burst::kTrainOctets) {
      break;
    }
    if (length < each) return count + 1;
  }
  return count;
}

/// The frames one behind the other. Over IPv4 the packets of a train are numbered.
std::span<const std::byte> NetworkLink::join(std::span<const NetworkFrame> frames) {
  std::vector<std::byte>& train = trains_.emplace_back();
  const bool is_ipv4 = frames.front().source.is_ipv4_mapped();
  for (std::size_t number = 0; number < frames.size(); ++number) {
    const auto& octets = frames[number].octets;
    train.insert(train.end(), octets.begin(), octets.end());
    if (!is_ipv4 || number == 0) continue;
    wire::change_identification(std::span(train).last(octets.size()), 0,
                                static_cast<std::uint16_t>(number));
  }
  return train;
}

}  // namespace verbatim::sim
