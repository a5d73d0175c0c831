// SPDX-License-Identifier: Apache-2.0
#include "memory/key_registry.h"

#include <algorithm>
#include <bit>

#include "base/fence.h"
#include "memory/window.h"

namespace verbatim::memory {
namespace {

std::uint64_t base_of(const KeyRegistry::Region& region) noexcept {
  return allows(region.access, Access::kZeroBased) ? 0 : region.base;
}

bool is_possible(const KeyRegistry::Region& region) noexcept {
  const std::uint64_t base = base_of(region);
  return is_consistent(region.access) && region.domain != DomainId::kNone &&
         region.address + region.octets >= region.address && base + region.octets >= base;
}

KeyEntry entry_of(const KeyRegistry::Region& region, std::uint32_t key) noexcept {
  return {.status = {.kind = KeyKind::kRegion},
          .key = key,
          .domain = region.domain,
          .access = region.access,
          .base = base_of(region),
          .octets = region.octets,
          .local = region.address};
}

}  // namespace

KeyRegistry::KeyRegistry(KeyTable table, std::span<std::uint32_t> free_list,
                         std::uint64_t seed) noexcept
    : table_(table), free_list_(free_list), used_(table.size() / 64 + 1), prng_(seed) {
  VB_ASSERT(free_list.size() == table.size());
  VB_ASSERT(std::uint64_t{table.first_index()} + table.size() <= kKeyIndexLimit);
  const std::uint32_t first = table.first_index() == 0 ? 1 : 0;
  for (std::uint32_t i = first; i < table.size(); ++i) free_list_[free_count_++] = i;
}

Expected<KeyEntry*> KeyRegistry::take_entry() noexcept {
  if (free_count_ == 0) return Errc::kNoMemory;
  const std::uint32_t index = free_list_[free_head_];
  free_head_ = free_head_ + 1 == table_.size() ? 0 : free_head_ + 1;
  --free_count_;
  ++used_count_;
  used_[index / 64].fetch_or(std::uint64_t{1} << index % 64, std::memory_order_relaxed);
  return &table_.at(index);
}

std::uint32_t KeyRegistry::fresh_key(const KeyEntry& entry) noexcept {
  // The first octet is random, the next ones count up: 256 uses of the entry have different octets.
  const std::uint32_t octet =
      entry.key == 0 ? static_cast<std::uint32_t>(prng_.below(256)) : (entry.key + 1) & 0xffU;
  return (table_.first_index() + table_.index_of(entry)) << 8 | octet;
}

void KeyRegistry::give_back(KeyEntry& entry) noexcept {
  withdraw(entry);
  store_field(entry.status.kind, KeyKind::kNone);
  --used_count_;
  const std::uint32_t index = table_.index_of(entry);
  // The release pairs with the load in close(): a thread that misses the entry sees what its owner
  // stored before it ended the registration.
  used_[index / 64].fetch_and(~(std::uint64_t{1} << index % 64), std::memory_order_release);
  std::uint32_t place = free_head_ + free_count_;
  if (place >= table_.size()) place -= table_.size();
  free_list_[place] = index;
  ++free_count_;
}

Expected<wire::MemoryKey> KeyRegistry::register_region(const Region& region) noexcept {
  if (!is_possible(region)) return Errc::kInvalidArgument;
  auto taken = take_entry();
  if (!taken) return taken.error();
  KeyEntry& entry = **taken;
  fill(entry, entry_of(region, fresh_key(entry)));
  publish(entry);
  return wire::MemoryKey{entry.key};
}

namespace {

/// Withdraws a region, unless a window is bound to it. A thread that binds a window meanwhile,
/// without the adapter's lock, has either counted the window already, or finds the region
/// withdrawn.
bool withdraw_unbound(KeyEntry& region) noexcept {
  if (load_field(region.bound) != 0) return false;
  const bool was_live = load_live(region) != 0;
  withdraw(region);
  full_fence();  // pairs with the one in grant_range()
  if (load_field(region.bound) == 0) return true;
  if (was_live) (void)publish_unless_gone(region);  // close() may have run meanwhile
  return false;
}

}  // namespace

Status KeyRegistry::change_region(wire::MemoryKey key, const Region& region,
                                  Memory memory) noexcept {
  KeyEntry* entry = find_region(key);
  if (entry == nullptr || !is_possible(region)) return Errc::kInvalidArgument;
  const bool stays_closed = memory == Memory::kSame && is_closed(key);
  if (!withdraw_unbound(*entry)) return Errc::kBusy;
  KeyEntry with = entry_of(region, entry->key);
  if (stays_closed) with.status.backing = Backing::kGone;
  fill(*entry, with);
  return Ok{};
}

void KeyRegistry::publish_region(wire::MemoryKey key) noexcept {
  if (KeyEntry* entry = find_region(key); entry != nullptr) (void)publish_unless_gone(*entry);
}

bool KeyRegistry::is_closed(wire::MemoryKey key) const noexcept {
  const KeyEntry* entry = find_region(key);
  return entry != nullptr && load_field(entry->status.backing) == Backing::kGone;
}

KeyEntry* KeyRegistry::find_region(wire::MemoryKey key) const noexcept {
  KeyEntry* entry = table_.find(key);
  const bool found = entry != nullptr && load_field(entry->status.kind) == KeyKind::kRegion &&
                     load_field(entry->key) == static_cast<std::uint32_t>(key);
  return found ? entry : nullptr;
}

void KeyRegistry::change_backing(wire::MemoryKey key, Backing backing,
                                 std::uint64_t shared_at) noexcept {
  KeyEntry* region = find_region(key);
  if (region == nullptr) return;
  // Pairs with read_live(), which loads them in the other order. `shared_at` is kept when the
  // region becomes private: a reader that has loaded kShared may load `shared_at` only now.
  if (backing != Backing::kPrivate) store_field(region->shared_at, shared_at);
  const auto change = [backing](KeyEntry& entry) {
    // A region that close() has ended meanwhile stays so.
    Backing before = load_field(entry.status.backing);
    while (before != Backing::kGone &&
           !std::atomic_ref(entry.status.backing)
                .compare_exchange_weak(before, backing, std::memory_order_release,
                                       std::memory_order_relaxed)) {
    }
  };
  change(*region);
  if (backing != Backing::kPrivate) return;
  full_fence();  // pairs with the one in grant_range()
  if (load_field(region->bound) == 0) return;
  const std::uint32_t parent = table_.index_of(*region);
  for (std::uint32_t i = 0; i < table_.size(); ++i) {
    KeyEntry& entry = table_.at(i);
    const KeyKind kind = load_field(entry.status.kind);
    const bool is_window = kind != KeyKind::kRegion && kind != KeyKind::kNone;
    if (is_window && load_field(entry.parent) == parent) change(entry);  // bound, or being bound
  }
}

void KeyRegistry::note(wire::MemoryKey key, std::uint32_t what) noexcept {
  if (KeyEntry* region = find_region(key); region != nullptr) store_field(region->parent, what);
}

namespace {

/// Ends access through a region. False when its status is no longer `present`.
bool close_region(KeyEntry& entry, const KeyStatus& present) noexcept {
  KeyStatus gone = present;
  gone.live = 0;
  gone.backing = Backing::kGone;
  return exchange_status(entry, present, gone);
}

KeyRegistry::Closed closed_by(const KeyStatus& present) noexcept {
  return present.live == 0 ? KeyRegistry::Closed::kBefore : KeyRegistry::Closed::kNow;
}

}  // namespace

KeyRegistry::Closed KeyRegistry::close(wire::MemoryKey region) noexcept {
  KeyEntry* entry = find_region(region);
  if (entry == nullptr) return Closed::kNothing;
  for (;;) {
    const KeyStatus present = load_field(entry->status);
    if (close_region(*entry, present)) return closed_by(present);
  }
}

/// Regions first. A window that another thread is binding is not live yet. Either this function
/// stores a status with which the window cannot become live, or the other thread finds the region
/// closed.
///
/// An entry may name other memory at any moment: its owner changes the region or binds the window
/// anew. So the range is read behind the status, and the status changes only if it is still the
/// same. Otherwise the entry is looked at again.
KeyRegistry::Closed KeyRegistry::close(std::uint64_t begin, std::uint64_t end) noexcept {
  Closed closed = Closed::kNothing;
  const auto for_each_in_range = [&](auto&& ends) {
    for (std::uint32_t word = 0; word < used_.size(); ++word) {
      for (std::uint64_t bits = used_[word].load(std::memory_order_acquire); bits != 0;
           bits &= bits - 1) {
        KeyEntry& entry = table_.at(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
        for (bool is_over = false; !is_over;) {
          const KeyStatus present = load_field(entry.status);
          const std::uint64_t first = load_field(entry.local);
          const std::uint64_t octets = load_field(entry.octets);
          const bool is_inside = first < end && begin < first + octets;
          is_over = !is_inside || ends(entry, present);
        }
      }
    }
  };
  for_each_in_range([&](KeyEntry& entry, const KeyStatus& present) {
    if (present.kind != KeyKind::kRegion) return true;
    if (!close_region(entry, present)) return false;
    closed = std::max(closed, closed_by(present));
    return true;
  });
  if (closed == Closed::kNothing) return closed;
  full_fence();  // pairs with the one in grant_range()
  for_each_in_range([&](KeyEntry& entry, const KeyStatus& present) {
    if (present.kind == KeyKind::kRegion || present.kind == KeyKind::kNone) return true;
    if (present.live == 0) return close_region(entry, present);  // unbound, or about to be bound
    if (!end_range(table_, entry, present, Backing::kGone)) return false;
    closed = Closed::kNow;
    return true;
  });
  return closed;
}

Status KeyRegistry::deregister_region(wire::MemoryKey key) noexcept {
  KeyEntry* entry = find_region(key);
  if (entry == nullptr) return Errc::kInvalidArgument;
  if (!withdraw_unbound(*entry)) return Errc::kBusy;
  give_back(*entry);
  return Ok{};
}

Expected<wire::MemoryKey> KeyRegistry::allocate_window(DomainId domain, KeyKind kind) noexcept {
  if (kind == KeyKind::kNone || kind == KeyKind::kRegion) return Errc::kInvalidArgument;
  if (domain == DomainId::kNone) return Errc::kInvalidArgument;
  auto taken = take_entry();
  if (!taken) return taken.error();
  KeyEntry& entry = **taken;
  fill(entry, {.status = {.kind = kind}, .key = fresh_key(entry), .domain = domain});
  return wire::MemoryKey{entry.key};
}

Status KeyRegistry::free_window(wire::MemoryKey key) noexcept {
  KeyEntry* entry = table_.find(key);
  if (entry == nullptr || load_field(entry->status.kind) == KeyKind::kNone ||
      load_field(entry->status.kind) == KeyKind::kRegion ||
      entry->key != static_cast<std::uint32_t>(key)) {
    return Errc::kInvalidArgument;
  }
  release_range(table_, *entry);
  give_back(*entry);
  return Ok{};
}

}  // namespace verbatim::memory
