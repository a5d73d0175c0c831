// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"

namespace verbatim::wire {

/// What a port counts (IBA Vol 1, 16.1.3.5 and 16.1.4). Data is counted in words of four octets.
enum class PortCounter : std::uint8_t {
  kSymbolErrors,
  kLinkRecoveries,
  kLinkDowned,
  kReceiveErrors,
  kReceiveRemotePhysicalErrors,
  kSwitchRelayErrors,
  kTransmitDiscards,
  kTransmitConstraintErrors,
  kReceiveConstraintErrors,
  kLocalIntegrityErrors,
  kBufferOverruns,
  kLane15Dropped,
  kTransmitWords,
  kReceiveWords,
  kTransmitPackets,
  kReceivePackets,
  kTransmitWait,
  kUnicastTransmitPackets,
  kUnicastReceivePackets,
  kMulticastTransmitPackets,
  kMulticastReceivePackets,
  kInactiveDiscards,  // the parts of kTransmitDiscards
  kNeighborMtuDiscards,
  kLifetimeDiscards,
  kQueueLifeDiscards,
  kLocalPhysicalErrors,  // the parts of kReceiveErrors
  kMalformedErrors,
  kReceiveOverruns,
  kDestinationErrors,  // the parts of kSwitchRelayErrors
  kLaneMappingErrors,
  kLoopingErrors,
};
inline constexpr std::size_t kPortCounterCount = 31;

/// Where an attribute has a counter: its first bit and its bits, counted from the most significant
/// bit of octet 0, and its bit in CounterSelect. A counter of 8 bits or more begins at an octet.
/// One that does not fit stays at the largest value.
struct CounterField {
  PortCounter counter{};
  std::uint16_t first_bit = 0;
  std::uint8_t bits = 0;
  std::uint8_t select_bit = 0;

  [[nodiscard]] constexpr std::uint64_t limit() const noexcept {
    return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  }
  void emit(std::uint64_t value, std::span<std::byte> to) const noexcept {
    value = std::min(value, limit());
    std::byte* const at = to.data() + first_bit / 8;
    if (bits == 4) return emit_nibble(static_cast<std::uint8_t>(value), *at);
    for (unsigned left = bits, i = 0; left != 0; left -= 8, ++i) {
      at[i] = static_cast<std::byte>((value >> (left - 8)) & 0xff);
    }
  }
  [[nodiscard]] std::uint64_t from(std::span<const std::byte> octets) const noexcept {
    const std::byte* const at = octets.data() + first_bit / 8;
    if (bits == 4) {
      return std::to_integer<std::uint64_t>(first_bit % 8 == 0 ? *at >> 4 : *at & std::byte{0x0f});
    }
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bits / 8U; ++i) {
      value = (value << 8) | std::to_integer<std::uint64_t>(at[i]);
    }
    return value;
  }

 private:
  void emit_nibble(std::uint8_t value, std::byte& to) const noexcept {
    to = first_bit % 8 == 0 ? (to & std::byte{0x0f}) | static_cast<std::byte>(value << 4)
                            : (to & std::byte{0xf0}) | static_cast<std::byte>(value);
  }
};

/// The attributes of performance management that this code knows (16.1.2 and 16.1.4).
enum class PerformanceAttribute : std::uint16_t {
  kClassPortInfo = 0x0001,
  kPortCounters = 0x0012,
  kPortReceiveErrorDetails = 0x0015,
  kPortTransmitDiscardDetails = 0x0016,
  kPortCountersExtended = 0x001d,
};

/// A datagram of performance management: 0..23 header | 24..63 reserved | 64..255 data, which begin
/// with 0 reserved | 1 port | 2..3 CounterSelect.
struct PerformanceMad {
  static constexpr std::size_t kDataOffset = 64;
  static constexpr std::size_t kDataSize = 192;
  static constexpr std::uint8_t kClassVersion = 1;
  static constexpr std::uint8_t kAllPorts = 255;
};

/// PortCounters (16.1.3.5). CounterSelect2, the octet 18, has bit 16 of the selection.
inline constexpr std::array kPortCounterFields{
    CounterField{PortCounter::kSymbolErrors, 32, 16, 0},
    CounterField{PortCounter::kLinkRecoveries, 48, 8, 1},
    CounterField{PortCounter::kLinkDowned, 56, 8, 2},
    CounterField{PortCounter::kReceiveErrors, 64, 16, 3},
    CounterField{PortCounter::kReceiveRemotePhysicalErrors, 80, 16, 4},
    CounterField{PortCounter::kSwitchRelayErrors, 96, 16, 5},
    CounterField{PortCounter::kTransmitDiscards, 112, 16, 6},
    CounterField{PortCounter::kTransmitConstraintErrors, 128, 8, 7},
    CounterField{PortCounter::kReceiveConstraintErrors, 136, 8, 8},
    CounterField{PortCounter::kLocalIntegrityErrors, 152, 4, 9},
    CounterField{PortCounter::kBufferOverruns, 156, 4, 10},
    CounterField{PortCounter::kLane15Dropped, 176, 16, 11},
    CounterField{PortCounter::kTransmitWords, 192, 32, 12},
    CounterField{PortCounter::kReceiveWords, 224, 32, 13},
    CounterField{PortCounter::kTransmitPackets, 256, 32, 14},
    CounterField{PortCounter::kReceivePackets, 288, 32, 15},
    CounterField{PortCounter::kTransmitWait, 320, 32, 16},
};

/// PortCountersExtended (16.1.4.11).
inline constexpr std::array kExtendedCounterFields{
    CounterField{PortCounter::kTransmitWords, 64, 64, 0},
    CounterField{PortCounter::kReceiveWords, 128, 64, 1},
    CounterField{PortCounter::kTransmitPackets, 192, 64, 2},
    CounterField{PortCounter::kReceivePackets, 256, 64, 3},
    CounterField{PortCounter::kUnicastTransmitPackets, 320, 64, 4},
    CounterField{PortCounter::kUnicastReceivePackets, 384, 64, 5},
    CounterField{PortCounter::kMulticastTransmitPackets, 448, 64, 6},
    CounterField{PortCounter::kMulticastReceivePackets, 512, 64, 7},
};

/// PortRcvErrorDetails (16.1.4.3).
inline constexpr std::array kReceiveErrorFields{
    CounterField{PortCounter::kLocalPhysicalErrors, 32, 16, 0},
    CounterField{PortCounter::kMalformedErrors, 48, 16, 1},
    CounterField{PortCounter::kReceiveOverruns, 64, 16, 2},
    CounterField{PortCounter::kDestinationErrors, 80, 16, 3},
    CounterField{PortCounter::kLaneMappingErrors, 96, 16, 4},
    CounterField{PortCounter::kLoopingErrors, 112, 16, 5},
};

/// PortXmitDiscardDetails (16.1.4.4).
inline constexpr std::array kTransmitDiscardFields{
    CounterField{PortCounter::kInactiveDiscards, 32, 16, 0},
    CounterField{PortCounter::kNeighborMtuDiscards, 48, 16, 1},
    CounterField{PortCounter::kLifetimeDiscards, 64, 16, 2},
    CounterField{PortCounter::kQueueLifeDiscards, 80, 16, 3},
};

}  // namespace verbatim::wire
