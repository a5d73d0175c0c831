// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "wire/headers/ids.h"

/// Helpers of the tests and fuzzers of this layer: octets in the notation of a specification, and
/// random ones. Nothing but tests includes this.
namespace verbatim::wire::test {

using Octets = std::vector<std::byte>;

/// "45 00 001c" as octets; blanks are ignored, any other character ends the text.
inline Octets hex(std::string_view text) {
  Octets octets;
  unsigned value = 0;
  bool half = false;
  for (const char c : text) {
    if (c == ' ' || c == '\n') continue;
    unsigned digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a') + 10;
    } else {
      break;
    }
    value = (value << 4) | digit;
    if (half) octets.push_back(static_cast<std::byte>(value & 0xff));
    half = !half;
  }
  return octets;
}

/// The octets that emit() of a header writes, into a buffer that was full of ones before.
template <typename Header>
Octets emitted(const Header& header) {
  Octets octets(Header::kSize, std::byte{0xff});
  header.emit(std::span<std::byte, Header::kSize>(octets));
  return octets;
}

inline Octets random_octets(Prng& prng, std::size_t count) {
  Octets octets(count);
  for (std::byte& octet : octets) octet = static_cast<std::byte>(prng.below(256));
  return octets;
}

template <typename T>
T random(Prng& prng) {
  return static_cast<T>(prng.next());
}

/// Exactly `kSize` octets at the start of `octets`, for from().
template <std::size_t kSize>
std::span<const std::byte, kSize> first(const Octets& octets) {
  return std::span<const std::byte>(octets).first<kSize>();
}

inline Gid gid(std::string_view text) {
  const Octets octets = hex(text);
  Gid gid;
  for (std::size_t i = 0; i < gid.octets.size() && i < octets.size(); ++i) {
    gid.octets[i] = std::to_integer<std::uint8_t>(octets[i]);
  }
  return gid;
}

inline Gid random_gid(Prng& prng) {
  Gid gid;
  for (auto& octet : gid.octets) octet = random<std::uint8_t>(prng);
  return gid;
}

}  // namespace verbatim::wire::test
