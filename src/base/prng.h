// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim {

/// A small, fast, seedable generator (splitmix64). Every random choice of a simulation comes from
/// one of these, so that a seed replays a history. Not for secrets.
class Prng {
 public:
  explicit constexpr Prng(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9e37'79b9'7f4a'7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9U;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebU;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound); 0 for bound 0. The bias of the multiply is below 2^-32 for small
  /// bounds.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  /// Uniform in [low, high], both inclusive.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
    const std::uint64_t count = high - low + 1;  // 0 when it is all 2^64 of them
    return count == 0 ? next() : low + below(count);
  }

  constexpr bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }
  constexpr bool per_mille(std::uint64_t chance) noexcept { return below(1000) < chance; }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t state_;
};

}  // namespace verbatim
