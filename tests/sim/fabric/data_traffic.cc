// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/data_traffic.h"

#include <utility>

namespace verbatim::fabric::test {
namespace {

constexpr std::uint16_t kWords = 100;

bool is_multicast(wire::Lid lid) noexcept {
  return lid >= wire::Lid::kFirstMulticast && lid != wire::Lid::kPermissive;
}

}  // namespace

DataTraffic::DataTraffic(Fabric& fabric, std::vector<PortEnd> ports, std::uint64_t seed)
    : fabric_(fabric), ports_(std::move(ports)), prng_(seed) {}

void DataTraffic::post_some(Instant now) {
  for (std::uint64_t count = prng_.below(4); count > 0; --count) {
    const PortEnd from = some_port();
    DataPacket sent = packet(from, some_lid());
    if (prng_.one_in(20)) sent.source = some_lid();
    if (prng_.one_in(20)) sent.words = static_cast<std::uint16_t>(prng_.below(2048));
    post(now, from, sent, 0);
  }
}

void DataTraffic::post_all(Instant now, wire::Lid group) {
  for (const PortEnd from : ports_) {
    for (const PortEnd to : ports_) post(now, from, packet(from, lid_of(to)), 1);
    post(now, from, packet(from, group), ports_.size());
  }
}

void DataTraffic::drain() {
  while (const auto outcome = fabric_.poll_data()) {
    const auto posted = outstanding_.find(outcome->handle);
    if (posted == outstanding_.end()) {
      complain("an outcome of packet " + std::to_string(outcome->handle) + ", which is done");
    } else if (outcome->kind == DataOutcome::Kind::kArrived) {
      arrive(posted->second, outcome->port);
    } else {
      if (posted->second.arrivals < posted->second.due) {
        complain("packet " + std::to_string(outcome->handle) + " has not arrived everywhere");
      }
      outstanding_.erase(posted);
    }
  }
}

/// A node that has lost its power has no LID any more.
void DataTraffic::arrive(Posted& posted, PortEnd port) {
  ++arrived_;
  ++posted.arrivals;
  if (is_multicast(posted.destination)) return;
  const wire::Lid lid = lid_of(port);
  if (lid != posted.destination && lid != wire::Lid::kReserved) {
    complain("a packet has arrived at a port with another LID");
  }
  if (posted.arrivals > 1) complain("a packet to one port has arrived at two");
}

/// Where links take no time, the packet either arrives at once or one discard is counted. It takes
/// others along that have waited for a link.
void DataTraffic::post(Instant now, PortEnd from, const DataPacket& packet, std::size_t due) {
  outstanding_.emplace(packet.handle, Posted{.destination = packet.destination, .due = due});
  const std::size_t arrived_before = arrived_;
  const std::size_t drops_before = drops();
  const bool is_alone = outstanding_.size() == 1;
  fabric_.post_data(now, from, packet);
  drain();
  if (outstanding_.contains(packet.handle) || is_multicast(packet.destination)) return;
  if (!is_alone) return;
  if (arrived_ - arrived_before + drops() - drops_before != 1) {
    complain("packet " + std::to_string(packet.handle) + " neither arrived nor was discarded once");
  }
}

DataPacket DataTraffic::packet(PortEnd from, wire::Lid to) {
  return {.handle = next_handle_++,
          .source = lid_of(from),
          .destination = to,
          .dest_qp = wire::QpNumber{0x100},
          .words = kWords};
}

/// Mostly of a port, which may have none yet.
wire::Lid DataTraffic::some_lid() {
  if (prng_.one_in(20)) return wire::Lid{static_cast<std::uint16_t>(prng_.next())};
  if (prng_.one_in(8)) return wire::Lid::kFirstMulticast;
  return lid_of(some_port());
}

std::size_t DataTraffic::drops() const {
  std::size_t count = 0;
  for (std::size_t reason = 0; reason < kDropReasonCount; ++reason) {
    count += fabric_.drop_count(DropReason{static_cast<std::uint8_t>(reason)});
  }
  return count;
}

void DataTraffic::complain(const std::string& complaint) {
  if (complaint_.empty()) complaint_ = complaint;
}

}  // namespace verbatim::fabric::test
