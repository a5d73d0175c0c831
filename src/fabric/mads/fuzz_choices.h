// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::fabric {

/// The choices of a fuzzer, one after the other; zeroes when none are left. Nothing but fuzzers
/// includes this.
class FuzzChoices {
 public:
  FuzzChoices(const std::uint8_t* data, std::size_t size) noexcept : octets_(data, size) {}
  [[nodiscard]] bool is_empty() const noexcept { return octets_.empty(); }
  std::uint8_t octet() noexcept {
    if (octets_.empty()) return 0;
    const std::uint8_t value = octets_.front();
    octets_ = octets_.subspan(1);
    return value;
  }
  std::uint8_t below(std::uint8_t bound) noexcept {
    return static_cast<std::uint8_t>(octet() % bound);
  }
  std::uint16_t two_octets() noexcept {
    const unsigned high = octet();
    return static_cast<std::uint16_t>((high << 8) | octet());
  }

 private:
  std::span<const std::uint8_t> octets_;
};

}  // namespace verbatim::fabric
