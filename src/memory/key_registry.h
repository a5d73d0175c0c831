// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/prng.h"
#include "memory/key_table.h"

namespace verbatim::memory {

/// Allocates and frees the entries of a key table: registration of regions, allocation of windows.
/// Entries are reused in the order in which they were freed and with another low key octet, so that
/// a stale key is detected for as long as possible. The entry that has key 0 among its keys is
/// never used: key 0 means "none".
///
/// The registry is private to the process that owns the table; only the entries are ever shared.
/// Thread: the one that holds the adapter's lock.
class KeyRegistry {
 public:
  struct Region {
    DomainId domain = DomainId::kNone;
    std::uint64_t address = 0;  // in the owner's address space
    std::uint64_t octets = 0;
    std::uint64_t base =
        0;  // address of the first octet as keys name it; not for zero-based regions
    Access access = Access::kNone;
  };

  /// `free_list` has one element per entry of the table. No entry may be in use. `seed` determines
  /// the low key octets.
  KeyRegistry(KeyTable table, std::span<std::uint32_t> free_list, std::uint64_t seed) noexcept;

  /// kInvalidArgument for rights that contradict each other, for no domain and for a range that
  /// wraps; kNoMemory when the table is full.
  [[nodiscard]] Expected<wire::MemoryKey> register_region(const Region& region) noexcept;

  /// Which memory a changed region has afterwards.
  enum class Memory : std::uint8_t {
    kOther,
    kSame,  // if close() has ended the key, it stays so
  };
  /// Describes a region anew and keeps its key, which is invalid afterwards. kInvalidArgument as
  /// register_region(), and for a key that names no region; kBusy while windows are bound to it. On
  /// failure nothing has changed.
  [[nodiscard]] Status change_region(wire::MemoryKey key, const Region& region,
                                     Memory memory = Memory::kOther) noexcept;
  /// After change_region(), when the memory is known to be that of the program: makes the key
  /// valid, unless close() has ended it.
  void publish_region(wire::MemoryKey key) noexcept;
  /// Whether close() has ended this region's key.
  [[nodiscard]] bool is_closed(wire::MemoryKey key) const noexcept;

  /// Changes how peers reach a region from now on. Accesses that are under way are not disturbed,
  /// and may still use the previous backing. Windows that are bound to the region follow when it
  /// becomes private. They do not follow when it becomes shared, because another thread may be
  /// binding them to another region at that moment.
  void change_backing(wire::MemoryKey key, Backing backing, std::uint64_t shared_at) noexcept;

  /// Stores a number that viewers see beside the region: the reason for its backing.
  void note(wire::MemoryKey key, std::uint32_t what) noexcept;

  /// What close() has found in the range.
  enum class Closed : std::uint8_t {
    kNothing,
    kBefore,  // regions or windows, all of whose keys were invalid already
    kNow,     // at least one whose key was valid
  };
  /// To be called when the memory at these addresses is no longer the registered memory: the keys
  /// of regions and windows there become invalid. Any thread, without a lock; allocates nothing. A
  /// region that changes meanwhile is closed if it names this memory at the end. The thread that
  /// changes it finds out whether the new memory was closed before it was described.
  Closed close(std::uint64_t begin, std::uint64_t end) noexcept;
  /// Likewise for one region to which no window is bound yet.
  Closed close(wire::MemoryKey region) noexcept;

  /// kBusy while windows are bound to it. Access ends before this returns.
  [[nodiscard]] Status deregister_region(wire::MemoryKey key) noexcept;

  /// Allocates an unbound window: its key becomes valid with a bind. kInvalidArgument for no domain
  /// and for a kind that is no window, kNoMemory when the table is full.
  [[nodiscard]] Expected<wire::MemoryKey> allocate_window(DomainId domain, KeyKind kind) noexcept;

  /// `key` is the window's current key. Unbinds the window if it is bound; access ends before this
  /// returns.
  [[nodiscard]] Status free_window(wire::MemoryKey key) noexcept;

  /// Another key for the same entry: a type 1 window gets it at its next bind.
  [[nodiscard]] static wire::MemoryKey next_key(wire::MemoryKey key) noexcept {
    const auto raw = static_cast<std::uint32_t>(key);
    return wire::MemoryKey((raw & ~0xffU) | ((raw + 1) & 0xffU));
  }

  [[nodiscard]] const KeyTable& table() const noexcept { return table_; }
  [[nodiscard]] std::uint32_t used_count() const noexcept { return used_count_; }

 private:
  [[nodiscard]] Expected<KeyEntry*> take_entry() noexcept;
  [[nodiscard]] KeyEntry* find_region(wire::MemoryKey key) const noexcept;
  [[nodiscard]] std::uint32_t fresh_key(const KeyEntry& entry) noexcept;
  void give_back(KeyEntry& entry) noexcept;

  KeyTable table_;
  std::span<std::uint32_t> free_list_;  // a ring of entry indices
  std::uint32_t free_head_ = 0;         // index of the entry to use next
  std::uint32_t free_count_ = 0;
  std::uint32_t used_count_ = 0;                  // entries that are regions or windows
  std::vector<std::atomic<std::uint64_t>> used_;  // a bit for each such entry
  Prng prng_;
};

}  // namespace verbatim::memory
