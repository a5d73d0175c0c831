// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_arrival_ring.h"

namespace verbatim::host {

bool FabricArrivalWriter::put(std::span<const std::byte> packet) noexcept {
  const auto packet_octets = static_cast<std::uint32_t>(packet.size());
  if (!has_room(packet_octets)) return false;
  const std::uint32_t octets = FabricArrivalEntry::octets_with(packet_octets);
  if (octets > to_end()) {
    write_head(FabricArrivalEntry::kSkip);
    arrived_ += to_end();
  }
  write_head(packet_octets);
  std::memcpy(&area_->arrivals[arrived_ % Area::kRingOctets + FabricArrivalEntry::kHeadOctets],
              packet.data(), packet.size());
  arrived_ += octets;
  area_->arrived.store(arrived_, std::memory_order_release);  // pairs with next()
  return true;
}

std::span<const std::byte> FabricArrivalReader::next() noexcept {
  using Area = FabricDataArea;
  if (is_broken_) return {};
  for (;;) {
    if (read_ == arrived_) {
      arrived_ = area_->arrived.load(std::memory_order_acquire);  // pairs with put()
      if (read_ == arrived_) return {};
    }
    const std::uint32_t there = arrived_ - read_;
    const std::uint32_t at = read_ % Area::kRingOctets;
    const std::uint32_t to_end = Area::kRingOctets - at;
    std::uint32_t packet_octets = 0;
    std::memcpy(&packet_octets, &area_->arrivals[at], sizeof packet_octets);
    const bool is_skip = packet_octets == FabricArrivalEntry::kSkip;
    if (!is_skip && (packet_octets == 0 || packet_octets > Area::kBufferOctets)) return stop();
    const std::uint32_t octets = is_skip ? to_end : FabricArrivalEntry::octets_with(packet_octets);
    if (there > Area::kRingOctets || octets > there || octets > to_end) return stop();
    read_ += octets;
    if (!is_skip) {
      return std::span(area_->arrivals)
          .subspan(at + FabricArrivalEntry::kHeadOctets, packet_octets);
    }
  }
}

}  // namespace verbatim::host
