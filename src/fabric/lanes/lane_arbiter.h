// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "fabric/node/port.h"

namespace verbatim::fabric {

/// Chooses the data lane whose packet leaves a port next, by the two tables and the limit that a
/// subnet manager has written (IBA Vol 1, 7.6.9). Lane 15 stands above it.
///
/// An entry of a table gives a lane so many blocks of 64 octets before the next entry; the last
/// packet may take more. Lanes of the high table go first until they have sent as much as the limit
/// says, then one packet of the low table may leave.
class LaneArbiter {
 public:
  /// Bits by lane.
  using Lanes = std::uint16_t;
  static constexpr std::uint8_t kNoLimit = 255;

  /// Begins with the first entries.
  void set_tables(const Port::Arbitration& high, const Port::Arbitration& low,
                  std::uint8_t high_limit) noexcept;
  /// The lanes that some entry serves.
  [[nodiscard]] Lanes served() const noexcept { return high_.served | low_.served; }
  /// Which lane has the turn of those that have a packet and credits for it.
  [[nodiscard]] std::optional<std::uint8_t> choose(Lanes ready) noexcept;
  /// The lane that was chosen last has sent a packet.
  void charge(std::uint16_t blocks) noexcept;

 private:
  struct Entry {
    std::uint8_t lane = 0;
    std::uint8_t weight = 0;  // 0: the entry does not count
  };
  struct Table {
    std::array<Entry, Port::kArbitrationEntries> entries{};
    Lanes served = 0;
    std::uint8_t at = 0;
    std::int16_t left = 0;  // blocks of this entry
  };

  static void fill(Table& table, const Port::Arbitration& octets) noexcept;
  [[nodiscard]] static std::uint8_t choose(Table& table, Lanes ready) noexcept;
  [[nodiscard]] bool is_limit_reached() const noexcept {
    return high_limit_ != kNoLimit && high_sent_ != 0 && high_sent_ >= high_limit_ * kLimitBlocks;
  }

  static constexpr std::uint32_t kLimitBlocks = 4096 / 64;
  Table high_{};
  Table low_{};
  std::uint32_t high_sent_ = 0;  // blocks since a packet of the low table
  std::uint8_t high_limit_ = 0;
  bool is_high_ = false;  // the lane that was chosen last
};

}  // namespace verbatim::fabric
