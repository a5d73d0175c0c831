// SPDX-License-Identifier: Apache-2.0
#include "sim/network_link.h"

#include "wire/crc/icrc.h"

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
    train.note_all_left();
    train.went_apart = true;
    counters_.packets_sent += train.packets;
  }
}

std::span<const link::Incoming> NetworkLink::receive(Instant now, Look /*look*/) noexcept {
  arrived_.clear();
  incoming_.clear();
  if (!is_open()) return {};
  while (auto frame = network_.take_arrived_at(address_, now)) {
    arrived_.push_back(std::move(*frame));
  }
  for (const Frame& frame : arrived_) {
    incoming_.push_back({.source = frame.source,
                         .destination = frame.destination,
                         .source_port = frame.source_port,
                         .traffic_class = frame.traffic_class,
                         .hop_limit = frame.hop_limit,
                         .octets = frame.octets});
  }
  counters_.packets_received += incoming_.size();
  return incoming_;
}

Instant NetworkLink::next_due() const noexcept {
  return is_open() ? network_.next_arrival_at(address_) : Instant::never();
}

}  // namespace verbatim::sim
