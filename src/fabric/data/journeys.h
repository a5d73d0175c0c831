// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/data/data_packet.h"
#include "fabric/packet_header.h"

namespace verbatim::fabric {

/// One packet of a program on its way, with all copies that switches make of it for a group.
struct Journey {
  std::uint32_t handle = 0;
  std::uint32_t copies = 0;  // not yet arrived or discarded; with the last one the journey ends
  std::size_t links = 0;     // that the copies have passed, all together
  PacketHeader header{};
};

enum class JourneyId : std::uint32_t {};

/// The journeys that have not ended. Their numbers are used again. Keeps the memory that it has
/// needed.
class Journeys {
 public:
  /// A journey of one copy.
  [[nodiscard]] JourneyId begin(const DataPacket& packet) {
    const std::uint32_t at = free_index();
    journeys_[at] = {.handle = packet.handle, .copies = 1, .header = packet.header()};
    return JourneyId{at};
  }
  /// Valid until the next begin().
  [[nodiscard]] Journey& at(JourneyId id) noexcept {
    return journeys_[static_cast<std::size_t>(id)];
  }
  /// One copy less. Returns whether it was the last one, after which the owner calls end().
  [[nodiscard]] bool end_copy(JourneyId id) noexcept { return --at(id).copies == 0; }
  /// Returns the handle of the packet.
  std::uint32_t end(JourneyId id) {
    free_.push_back(static_cast<std::uint32_t>(id));
    return at(id).handle;
  }
  [[nodiscard]] std::size_t size() const noexcept { return journeys_.size() - free_.size(); }

 private:
  [[nodiscard]] std::uint32_t free_index() {
    if (free_.empty()) {
      journeys_.emplace_back();
      return static_cast<std::uint32_t>(journeys_.size() - 1);
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }

  std::vector<Journey> journeys_;
  std::vector<std::uint32_t> free_;  // indices
};

}  // namespace verbatim::fabric
