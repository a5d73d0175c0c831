// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "rehome/range.h"

namespace verbatim::rehome {

/// A range that the program has unmapped, or moved to another address.
struct Departure {
  Range range;
  bool is_moved_away = false;
};

/// The departures that the monitor has reported and that are not taken yet. A full list loses new
/// ones and says so. Neither allocates nor locks.
///
/// One thread puts, one thread at a time takes, any thread asks.
class DepartureList {
 public:
  static constexpr std::size_t kMax = 1024;

  /// A point in the order of the departures.
  struct Moment {
    std::uint64_t put = 0;
    std::uint64_t misses = 0;
  };

  void put(const Departure& departure) noexcept;
  /// Takes the oldest departure. False when there is none. `has_missed` is set when some were lost
  /// since the last call.
  [[nodiscard]] bool take(Departure& departure, bool& has_missed) noexcept;

  [[nodiscard]] Moment now() const noexcept;
  /// Whether a departure since then has any of the range. True also when it is not known, because
  /// departures were lost or are not in the list any more.
  [[nodiscard]] bool may_have_left_since(const Moment& moment, Range range) const noexcept;

  /// In a forked child, which has one thread: the departures belong to the parent.
  void forget() noexcept;

 private:
  std::array<Departure, kMax> departures_{};
  std::atomic<std::uint64_t> put_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<bool> has_missed_{false};   // since the last take()
  std::atomic<std::uint64_t> misses_{0};  // in all
};

}  // namespace verbatim::rehome
