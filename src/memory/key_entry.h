// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/acquire.h"
#include "base/pointer.h"
#include "memory/access.h"
#include "memory/domain.h"
#include "wire/headers/ids.h"

namespace verbatim::memory {

enum class KeyKind : std::uint8_t { kNone, kRegion, kWindowType1, kWindowType2A, kWindowType2B };

/// How a process other than the owner reaches the octets (docs/ARCHITECTURE.md, section 5).
enum class Backing : std::uint8_t {
  kPrivate,       // through system calls, or by errands of its owner
  kShared,        // through a mapping of the owner's shared memory
  kSharedInside,  // likewise, except the first and last page, which the region has only in part
  kGone,          // not at all: the owner has unmapped its memory
};
/// The page size of kSharedInside.
inline constexpr std::uint64_t kSharedPageOctets = 4096;

/// A reader of an entry looks at this to know whether the entry has changed since. The owner stores
/// the members one by one. A reader may load them together: a processor sees them as they were at
/// one moment.
struct alignas(8) KeyStatus {
  std::uint32_t live = 0;        // zero, or the key that grants access
  std::uint16_t generation = 0;  // changes when access ends, and when the entry is filled
  Backing backing = Backing::kPrivate;
  KeyKind kind = KeyKind::kNone;
};

/// One region or window, as the owner keeps it and as a peer process may read it: plain data of
/// fixed size, no pointers, in storage that the caller provides.
///
/// `status.live` is the one word that grants access. It equals `key` while the entry may be used
/// and is zero otherwise. Other threads and processes read entries while the owner changes them, so
/// the owner keeps to an order: withdraw(), then fill(), then publish(). read_live() then sees the
/// entry as it was published or does not see it at all; it never mixes two bindings of one window.
struct alignas(64) KeyEntry {
  KeyStatus status{};
  std::uint32_t key = 0;  // the current key, also of an unbound window; a free entry keeps its last
  DomainId domain = DomainId::kNone;
  Access access = Access::kNone;
  std::uint32_t qp = 0;      // type 2 windows: the queue pair they are bound to
  std::uint64_t base = 0;    // first address as keys name it; zero-based regions start at 0
  std::uint64_t octets = 0;  // length of the range
  std::uint64_t local = 0;   // address of the first octet in the owner's address space
  std::uint64_t shared_at =
      0;                     // offset of the first octet in the owner's shared memory, if kShared
  std::uint32_t parent = 0;  // bound windows: entry index of the region; regions: note()
  std::uint32_t bound = 0;   // regions: how many windows are bound to it
};
static_assert(sizeof(KeyEntry) == 64 && std::is_trivially_copyable_v<KeyEntry>);
static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);

/// Every field is loaded with acquire and stored with release. So a reader that loads one value of
/// a later filling also loads the later generation.
template <typename T>
[[nodiscard]] T load_field(const T& field) noexcept {
  return load_acquire(field);
}
template <typename T>
void store_field(T& field, T value) noexcept {
  std::atomic_ref(field).store(value, std::memory_order_release);
}

[[nodiscard]] inline std::uint32_t load_live(const KeyEntry& entry) noexcept {
  return load_field(entry.status.live);
}

/// The monitor may change the status at the same moment.
[[nodiscard]] inline std::uint16_t next_generation(const KeyEntry& entry) noexcept {
  return static_cast<std::uint16_t>(load_field(entry.status.generation) + 1);
}

/// Ends access. Owner only, like every change.
inline void withdraw(KeyEntry& entry) noexcept {
  store_field(entry.status.live, 0U);
  store_field(entry.status.generation, next_generation(entry));
}

/// The status as one word, for changes that other threads may make at the same moment.
[[nodiscard]] inline std::atomic_ref<std::uint64_t> status_word(KeyEntry& entry) noexcept {
  return std::atomic_ref(*pointer_as<std::uint64_t>(&entry.status));
}
/// Changes the status, if it is still `from`.
[[nodiscard]] inline bool exchange_status(KeyEntry& entry, const KeyStatus& from,
                                          const KeyStatus& to) noexcept {
  auto expected = std::bit_cast<std::uint64_t>(from);
  return status_word(entry).compare_exchange_strong(expected, std::bit_cast<std::uint64_t>(to));
}

/// Describes a withdrawn entry: stores everything but `status.live` and `bound`. The status comes
/// last, in one store and with another generation: a thread that has read the other fields before
/// that cannot exchange_status() afterwards.
inline void fill(KeyEntry& entry, const KeyEntry& with) noexcept {
  store_field(entry.key, with.key);
  store_field(entry.domain, with.domain);
  store_field(entry.access, with.access);
  store_field(entry.base, with.base);
  store_field(entry.octets, with.octets);
  store_field(entry.local, with.local);
  store_field(entry.shared_at, with.shared_at);
  store_field(entry.qp, with.qp);
  store_field(entry.parent, with.parent);
  const KeyStatus filled{.generation = next_generation(entry),
                         .backing = with.status.backing,
                         .kind = with.status.kind};
  status_word(entry).store(std::bit_cast<std::uint64_t>(filled), std::memory_order_release);
}

/// Makes the key valid.
inline void publish(KeyEntry& entry) noexcept { store_field(entry.status.live, entry.key); }

/// Makes the key valid, unless another thread has stored meanwhile that the memory is gone.
inline bool publish_unless_gone(KeyEntry& entry) noexcept {
  for (;;) {
    const KeyStatus present = load_field(entry.status);
    if (present.backing == Backing::kGone) return false;
    KeyStatus live = present;
    live.live = entry.key;
    if (exchange_status(entry, present, live)) return true;
  }
}

/// The contents of a live entry at one instant: all that the checks of an access need.
struct LiveEntry {
  const KeyEntry* entry = nullptr;
  KeyStatus status{};
  DomainId domain = DomainId::kNone;
  Access access = Access::kNone;
  std::uint32_t qp = 0;
  std::uint64_t base = 0;
  std::uint64_t octets = 0;
  std::uint64_t local = 0;
  std::uint64_t shared_at = 0;
};

/// Copies the entry through `load`, if `key` grants access now. Also false when the owner withdrew
/// the entry meanwhile, because the copy may then mix two fillings.
template <typename Load>
[[nodiscard]] bool read_live_through(Load&& load, const KeyEntry& entry, std::uint32_t key,
                                     LiveEntry& copy) noexcept {
  const KeyStatus status = load(entry.status);
  if (status.live != key || key == 0) return false;
  copy.entry = &entry;
  copy.status = status;
  copy.domain = load(entry.domain);
  copy.access = load(entry.access);
  copy.base = load(entry.base);
  copy.octets = load(entry.octets);
  copy.local = load(entry.local);
  // The backing may change while the key is valid. The owner stores `shared_at` before it.
  copy.shared_at = load(entry.shared_at);
  copy.qp = load(entry.qp);
  return load(entry.status.generation) == status.generation;
}

/// The same for any thread of any process. After a release to a cache line that a peer polls, which
/// every request makes, it costs 6 ns with `ldapr` on a Neoverse-V1, and 50 ns with `ldar`.
[[nodiscard]] inline bool read_live(const KeyEntry& entry, std::uint32_t key,
                                    LiveEntry& copy) noexcept {
  if (kHasLdapr) [[likely]] {
    const auto load = [](const auto& field) noexcept { return load_acquire_with_ldapr(field); };
    return read_live_through(load, entry, key, copy);
  }
  const auto load = [](const auto& field) noexcept { return load_field(field); };
  return read_live_through(load, entry, key, copy);
}

/// Whether the entry that `copy` was read from is unchanged: one load instead of nine. A reader
/// that sees the key of a later filling also sees its generation, and `shared_at` does not change
/// while a backing is shared. (After 32,768 fillings the generation may be the same again.)
[[nodiscard]] inline bool is_unchanged(const LiveEntry& copy) noexcept {
  const auto* const word = pointer_as<const std::uint64_t>(&copy.entry->status);
  return load_acquire(*word) == std::bit_cast<std::uint64_t>(copy.status);  // one 8-octet load
}

}  // namespace verbatim::memory
