// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "memory/access.h"
#include "memory/domain.h"
#include "wire/ids.h"

namespace verbatim::memory {

enum class KeyKind : std::uint8_t { kNone, kRegion, kWindowType1, kWindowType2A, kWindowType2B };

/// How a process other than the owner reaches the octets (docs/ARCHITECTURE.md, section 5).
enum class Backing : std::uint8_t { kPrivate, kShared, kCma, kOwner };

/// One region or window, as the owner keeps it and as a peer process may read it: plain data of
/// fixed size, no pointers, in storage that the caller provides.
///
/// `live` is the one word that grants access. It equals `key` while the entry may be used and is
/// zero otherwise; it is published last and withdrawn first, so whoever reads it with acquire sees
/// the rest of the entry as it was published.
struct alignas(64) KeyEntry {
  std::uint32_t live = 0;  // atomic; zero, or the key that grants access
  std::uint32_t key = 0;   // the current key, also of an unbound window; zero in a free entry
  DomainId domain = DomainId::kNone;
  Access access = Access::kNone;
  std::uint64_t base = 0;       // first address as keys name it; zero-based regions start at 0
  std::uint64_t octets = 0;     // length of the range
  std::uint64_t local = 0;      // where the first octet lies in the owner's address space
  std::uint64_t shared_at = 0;  // where it lies in the owner's shared memory, if backing is kShared
  std::uint32_t qp = 0;         // type 2 windows: the queue pair they are bound to
  std::uint32_t parent = 0;     // bound windows: entry index of the region
  std::uint32_t bound = 0;      // atomic; regions: how many windows are bound to it
  KeyKind kind = KeyKind::kNone;
  Backing backing = Backing::kPrivate;
  std::uint16_t generation = 0;  // how often the entry was handed out, to spread key octets
};
static_assert(sizeof(KeyEntry) == 64 && std::is_trivially_copyable_v<KeyEntry>);
static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free);

[[nodiscard]] inline std::uint32_t load_live(const KeyEntry& entry) noexcept {
  // pairs with the release in publish()
  return std::atomic_ref(const_cast<std::uint32_t&>(entry.live)).load(std::memory_order_acquire);
}
inline void publish(KeyEntry& entry) noexcept {
  std::atomic_ref(entry.live).store(entry.key, std::memory_order_release);
}
inline void withdraw(KeyEntry& entry) noexcept {
  std::atomic_ref(entry.live).store(0, std::memory_order_release);
}

}  // namespace verbatim::memory
