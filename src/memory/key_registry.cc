// SPDX-License-Identifier: Apache-2.0
#include "memory/key_registry.h"

namespace verbatim::memory {

KeyRegistry::KeyRegistry(KeyTable table, std::span<std::uint32_t> free_list,
                         std::uint64_t seed) noexcept
    : table_(table), free_list_(free_list), free_count_(table.size()), prng_(seed) {
  VB_ASSERT(free_list.size() == table.size());
  for (std::uint32_t i = 0; i < table.size(); ++i) free_list_[i] = i;
}

Expected<KeyEntry*> KeyRegistry::take_entry() noexcept {
  if (free_count_ == 0) return Errc::kNoMemory;
  const std::uint32_t index = free_list_[free_head_];
  free_head_ = free_head_ + 1 == table_.size() ? 0 : free_head_ + 1;
  --free_count_;
  KeyEntry& entry = table_.at(index);
  const auto generation = static_cast<std::uint16_t>(entry.generation + 1);
  // A random start, then counting up: every reuse of the entry within 256 rounds has another octet.
  std::uint32_t octet =
      entry.key == 0 ? static_cast<std::uint32_t>(prng_.below(256)) : (entry.key + 1) & 0xffU;
  const std::uint32_t upper = (table_.first_index() + index) << 8;
  if ((upper | octet) == 0) octet = 1;  // key 0 means "none"
  entry = KeyEntry{};
  entry.generation = generation;
  entry.key = upper | octet;
  return &entry;
}

void KeyRegistry::give_back(KeyEntry& entry) noexcept {
  withdraw(entry);
  entry.kind = KeyKind::kNone;
  std::uint32_t place = free_head_ + free_count_;
  if (place >= table_.size()) place -= table_.size();
  free_list_[place] = table_.index_of(entry);
  ++free_count_;
}

Expected<wire::MemoryKey> KeyRegistry::register_region(const Region& region) noexcept {
  if (!is_consistent(region.access)) return Errc::kInvalidArgument;
  if (region.address + region.octets < region.address) return Errc::kInvalidArgument;
  if (region.base + region.octets < region.base) return Errc::kInvalidArgument;
  auto taken = take_entry();
  if (!taken) return taken.error();
  KeyEntry& entry = **taken;
  entry.kind = KeyKind::kRegion;
  entry.domain = region.domain;
  entry.access = region.access;
  entry.base = allows(region.access, Access::kZeroBased) ? 0 : region.base;
  entry.octets = region.octets;
  entry.local = region.address;
  publish(entry);
  return wire::MemoryKey{entry.key};
}

Status KeyRegistry::deregister_region(wire::MemoryKey key) noexcept {
  KeyEntry* entry = table_.find(key);
  if (entry == nullptr || entry->kind != KeyKind::kRegion ||
      entry->key != static_cast<std::uint32_t>(key)) {
    return Errc::kInvalidArgument;
  }
  if (std::atomic_ref(entry->bound).load(std::memory_order_relaxed) != 0) return Errc::kBusy;
  give_back(*entry);
  return Ok{};
}

Expected<wire::MemoryKey> KeyRegistry::allocate_window(DomainId domain, KeyKind kind) noexcept {
  if (kind == KeyKind::kNone || kind == KeyKind::kRegion) return Errc::kInvalidArgument;
  auto taken = take_entry();
  if (!taken) return taken.error();
  KeyEntry& entry = **taken;
  entry.kind = kind;
  entry.domain = domain;
  return wire::MemoryKey{entry.key};
}

Status KeyRegistry::free_window(wire::MemoryKey key) noexcept {
  KeyEntry* entry = table_.find(key);
  if (entry == nullptr || entry->kind == KeyKind::kNone || entry->kind == KeyKind::kRegion ||
      entry->key != static_cast<std::uint32_t>(key)) {
    return Errc::kInvalidArgument;
  }
  if (load_live(*entry) != 0 && entry->octets != 0) {
    std::atomic_ref(table_.at(entry->parent).bound).fetch_sub(1, std::memory_order_relaxed);
  }
  give_back(*entry);
  return Ok{};
}

}  // namespace verbatim::memory
