// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::test {

/// The choices of a fuzzer, one after the other; zeroes after the last. Only fuzzers include this
/// file.
class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size) noexcept : octets_(data, size) {}

  [[nodiscard]] bool is_empty() const noexcept { return octets_.empty(); }
  std::uint8_t octet() noexcept {
    if (octets_.empty()) return 0;
    const std::uint8_t value = octets_.front();
    octets_ = octets_.subspan(1);
    return value;
  }
  std::uint16_t two_octets() noexcept {
    const std::uint32_t low = octet();
    return static_cast<std::uint16_t>(low | std::uint32_t{octet()} << 8);
  }
  std::uint32_t four_octets() noexcept {
    const std::uint32_t low = two_octets();
    return low | std::uint32_t{two_octets()} << 16;
  }
  /// At most 256 kinds of something.
  std::uint32_t below(std::uint32_t bound) noexcept { return octet() % bound; }
  std::uint8_t octet_below(std::uint32_t bound) noexcept {
    return static_cast<std::uint8_t>(below(bound));
  }
  template <typename T, std::size_t kCount>
  T pick(const T (&choices)[kCount]) noexcept {
    return choices[below(kCount)];
  }

 private:
  std::span<const std::uint8_t> octets_;
};

}  // namespace verbatim::test
