// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/management/port_counters.h"

namespace verbatim::fabric {

/// The counters of one port. PortCounters and PortCountersExtended have their own resets, as if
/// each counted for itself; both are the difference between one total and what it was at the reset.
class PortCounts {
 public:
  enum class Reader : std::uint8_t { kShort, kExtended };

  void add(wire::PortCounter counter, std::uint64_t amount = 1) noexcept {
    totals_[index_of(counter)] += amount;
  }
  void add_sent(bool is_multicast, std::uint16_t words) noexcept {
    add(wire::PortCounter::kTransmitPackets);
    add(is_multicast ? wire::PortCounter::kMulticastTransmitPackets
                     : wire::PortCounter::kUnicastTransmitPackets);
    add(wire::PortCounter::kTransmitWords, words);
  }
  void add_received(bool is_multicast, std::uint16_t words) noexcept {
    add(wire::PortCounter::kReceivePackets);
    add(is_multicast ? wire::PortCounter::kMulticastReceivePackets
                     : wire::PortCounter::kUnicastReceivePackets);
    add(wire::PortCounter::kReceiveWords, words);
  }
  /// Since the port was made.
  [[nodiscard]] std::uint64_t total(wire::PortCounter counter) const noexcept {
    return totals_[index_of(counter)];
  }
  [[nodiscard]] std::uint64_t value(Reader reader, wire::PortCounter counter) const noexcept {
    return totals_[index_of(counter)] -
           starts_[static_cast<std::size_t>(reader)][index_of(counter)];
  }
  void set(Reader reader, wire::PortCounter counter, std::uint64_t value) noexcept {
    starts_[static_cast<std::size_t>(reader)][index_of(counter)] =
        totals_[index_of(counter)] - value;
  }

 private:
  using Numbers = std::array<std::uint64_t, wire::kPortCounterCount>;
  static constexpr std::size_t index_of(wire::PortCounter counter) noexcept {
    return static_cast<std::size_t>(counter);
  }
  Numbers totals_{};
  std::array<Numbers, 2> starts_{};  // totals_ at the last reset, by reader
};

}  // namespace verbatim::fabric
