// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbatim::fabric {

/// Some of the ports of a switch.
class PortSet {
 public:
  static constexpr unsigned kGroupPorts = 16;  // of a mask in a multicast table

  void add(std::uint8_t port) noexcept { word_of(port) |= bit_of(port); }
  void remove(std::uint8_t port) noexcept { word_of(port) &= ~bit_of(port); }
  /// The ports of a mask, whose bit 0 is port `group` * 16.
  void add_group(std::uint8_t group, std::uint16_t mask) noexcept {
    words_[group / kWordGroups] |= std::uint64_t{mask} << (group % kWordGroups * kGroupPorts);
  }
  /// Removes those above `last`.
  void keep_up_to(std::uint8_t last) noexcept {
    const std::size_t word = last / kWordPorts;
    words_[word] &= bit_of(last) | (bit_of(last) - 1);
    for (std::size_t above = word + 1; above < words_.size(); ++above) words_[above] = 0;
  }
  [[nodiscard]] bool contains(std::uint8_t port) const noexcept {
    return (words_[port / kWordPorts] & bit_of(port)) != 0;
  }
  [[nodiscard]] bool empty() const noexcept { return words_ == Words{}; }
  /// Takes the lowest one out; empty: there is none.
  [[nodiscard]] std::optional<std::uint8_t> take_first() noexcept {
    for (unsigned i = 0; i < words_.size(); ++i) {
      if (words_[i] == 0) continue;
      const auto bit = static_cast<unsigned>(std::countr_zero(words_[i]));
      words_[i] &= words_[i] - 1;
      return static_cast<std::uint8_t>(i * kWordPorts + bit);
    }
    return std::nullopt;
  }

 private:
  static constexpr unsigned kWordPorts = 64;
  static constexpr unsigned kWordGroups = kWordPorts / kGroupPorts;
  using Words = std::array<std::uint64_t, 4>;  // all numbers of ports

  [[nodiscard]] std::uint64_t& word_of(std::uint8_t port) noexcept {
    return words_[port / kWordPorts];
  }
  [[nodiscard]] static constexpr std::uint64_t bit_of(std::uint8_t port) noexcept {
    return std::uint64_t{1} << (port % kWordPorts);
  }

  Words words_{};
};

}  // namespace verbatim::fabric
