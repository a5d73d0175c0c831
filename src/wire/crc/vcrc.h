// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::wire {

/// The variant CRC of native InfiniBand (IBA Vol 1, 7.8.2): 16 bits, generator 0x100B, octets least
/// significant bit first. It covers a packet from LRH to ICRC without masking, and every hop
/// computes it again. Link packets have the same CRC over their first four octets, as LPCRC
/// (7.9.4).
inline constexpr std::uint16_t kVcrcPreset = 0xffff;

namespace vcrc_tables {
/// kSlices[i][v]: the register after an octet of value v and i octets of zeroes.
inline constexpr auto kSlices = [] {
  constexpr unsigned kGenerator = 0xd008;  // 0x100B with its bits reversed
  std::array<std::array<std::uint16_t, 256>, 8> slices{};
  for (unsigned value = 0; value < 256; ++value) {
    unsigned state = value;
    for (auto& slice : slices) {
      for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) * kGenerator);
      slice[value] = static_cast<std::uint16_t>(state);
    }
  }
  return slices;
}();
}  // namespace vcrc_tables

/// Advances the raw register over `octets`, so that a computation can be done in pieces.
[[nodiscard]] constexpr std::uint16_t vcrc_update(std::uint16_t state,
                                                  std::span<const std::byte> octets) noexcept {
  const auto& slices = vcrc_tables::kSlices;
  const auto value = [&](std::size_t at) { return std::to_integer<unsigned>(octets[at]); };
  for (; octets.size() >= 8; octets = octets.subspan(8)) {
    const auto part = [&](std::size_t at) { return slices[7 - at][value(at)]; };
    const unsigned first = slices[7][(value(0) ^ state) & 0xff];
    const unsigned second = slices[6][value(1) ^ (static_cast<unsigned>(state) >> 8)];
    state = static_cast<std::uint16_t>(
        (first ^ second) ^ ((part(2) ^ part(3)) ^ (part(4) ^ part(5)) ^ (part(6) ^ part(7))));
  }
  for (std::size_t at = 0; at < octets.size(); ++at) {
    state = static_cast<std::uint16_t>((static_cast<unsigned>(state) >> 8) ^
                                       slices[0][(state ^ value(at)) & 0xff]);
  }
  return state;
}

/// The octets in wire order that belong to the register after the last octet.
[[nodiscard]] constexpr std::array<std::byte, 2> finished_vcrc(std::uint16_t state) noexcept {
  const unsigned finished = ~static_cast<unsigned>(state);
  return {static_cast<std::byte>(finished & 0xff), static_cast<std::byte>((finished >> 8) & 0xff)};
}

/// The finished VCRC of a packet from LRH to ICRC, or the LPCRC of a link packet's four octets, in
/// wire order.
[[nodiscard]] constexpr std::array<std::byte, 2> vcrc_of(
    std::span<const std::byte> octets) noexcept {
  return finished_vcrc(vcrc_update(kVcrcPreset, octets));
}

}  // namespace verbatim::wire
