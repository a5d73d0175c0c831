// SPDX-License-Identifier: Apache-2.0
#include "loop/waiting_room.h"

#include <algorithm>
#include <new>

namespace verbatim::loop {

bool WaitingRoom::open() noexcept {
  if (octets_ != nullptr) return true;
  octets_.reset(new (std::nothrow) std::byte[kPlaces * link::kFrameOctets]);
  if (octets_ == nullptr) return false;
  waiting_.reserve(kPlaces);
  free_.reserve(kPlaces);
  for (std::size_t place = kPlaces; place > 0; --place) free_.push_back(place - 1);
  return true;
}

bool WaitingRoom::admit(wire::QpNumber receiver, const link::Incoming& packet) noexcept {
  if (packet.octets.size() > link::kFrameOctets || !open() || free_.empty()) return false;
  const std::size_t place = free_.back();
  free_.pop_back();
  const std::span<std::byte> room(octets_.get() + place * link::kFrameOctets, packet.octets.size());
  std::ranges::copy(packet.octets, room.begin());
  WaitingPacket& waiting = waiting_.emplace_back(
      WaitingPacket{.receiver = receiver, .incoming = packet, .place = place});
  waiting.incoming.octets = room;
  waiting.incoming.segment_octets = 0;
  return true;
}

}  // namespace verbatim::loop
