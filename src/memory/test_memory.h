// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/pointer.h"
#include "memory/key_registry.h"
#include "memory/window.h"

namespace verbatim::memory {

/// A key table, its registry and octets to register, for tests.
class TestMemory {
 public:
  static constexpr std::uint32_t kFirstIndex = 0x4200;
  static constexpr std::uint64_t kOctets = 4096;
  static constexpr DomainId kHome{1};
  static constexpr DomainId kAbroad{2};
  static constexpr wire::QpNumber kQp{0x11};
  static constexpr wire::QpNumber kOtherQp{0x12};
  static constexpr Access kEverything = Access::kLocalWrite | Access::kRemoteWrite |
                                        Access::kRemoteRead | Access::kRemoteAtomic |
                                        Access::kBindWindow;

  explicit TestMemory(std::uint32_t entry_count = 8, std::uint32_t first_index = kFirstIndex,
                      std::uint64_t seed = 1)
      : entries_(entry_count),
        free_list_(entry_count),
        registry_(KeyTable(entries_, first_index), free_list_, seed) {}

  [[nodiscard]] KeyRegistry& registry() noexcept { return registry_; }
  [[nodiscard]] const KeyTable& table() const noexcept { return registry_.table(); }
  [[nodiscard]] const KeyEntry& entry_of(wire::MemoryKey key) const { return *table().find(key); }

  [[nodiscard]] std::byte* octets() noexcept { return octets_.data(); }
  /// The first address of the octets.
  [[nodiscard]] std::uint64_t start() const noexcept { return numeric_address(octets_.data()); }

  /// A region over all the octets.
  [[nodiscard]] wire::MemoryKey region(Access access, DomainId domain = kHome) {
    return *registry_.register_region({.domain = domain,
                                       .address = start(),
                                       .octets = kOctets,
                                       .base = start(),
                                       .access = access});
  }
  [[nodiscard]] wire::MemoryKey window(KeyKind kind, DomainId domain = kHome) {
    return *registry_.allocate_window(domain, kind);
  }

  /// A write of one octet at the start of the octets: the queue pair and domain are the right ones.
  [[nodiscard]] KeyTable::Want want(wire::MemoryKey key) const noexcept {
    return {.key = key,
            .domain = kHome,
            .qp = kQp,
            .address = start(),
            .octets = 1,
            .need = Access::kRemoteWrite};
  }

 private:
  alignas(64) std::array<std::byte, kOctets> octets_{};
  std::vector<KeyEntry> entries_;
  std::vector<std::uint32_t> free_list_;
  KeyRegistry registry_;
};

/// The result of a check: kNone if it granted the access.
[[nodiscard]] inline Refusal refusal_of(const Expected<Grant, Refusal>& verdict) noexcept {
  return verdict ? Refusal::kNone : verdict.error();
}

/// The same key with another low octet.
[[nodiscard]] inline wire::MemoryKey with_octet(wire::MemoryKey key, std::uint32_t octet) noexcept {
  return wire::MemoryKey{(static_cast<std::uint32_t>(key) & ~0xffU) | (octet & 0xffU)};
}

}  // namespace verbatim::memory
