// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "base/pointer.h"
#include "memory/key_entry.h"
#include "memory/refusal.h"

namespace verbatim::memory {

inline constexpr std::uint32_t kKeyIndexLimit = 1U << 24;  // an index is the upper 24 key bits

/// The octets of a region that peers can map: `octets` from `offset` on.
struct SharedPart {
  std::uint64_t offset = 0;
  std::uint64_t octets = 0;
};

/// All octets of the region, or those in pages that belong to it completely, or none.
[[nodiscard]] inline SharedPart shared_part(const LiveEntry& region) noexcept {
  if (region.status.backing == Backing::kShared) return {.offset = 0, .octets = region.octets};
  if (region.status.backing != Backing::kSharedInside) return {};
  constexpr std::uint64_t kPage = kSharedPageOctets;
  const std::uint64_t first = (region.local + kPage - 1) / kPage * kPage;
  const std::uint64_t past = (region.local + region.octets) / kPage * kPage;
  if (past <= first) return {};
  return {.offset = first - region.local, .octets = past - first};
}

/// An access that was allowed: the entry that allows it, and where the octets are. The places are
/// those at the time of the check: the entry may change at any time.
///
/// For an access of zero octets no key is looked up, and the grant has no entry.
struct Grant {
  const KeyEntry* entry = nullptr;
  std::uint64_t offset = 0;     // octets from the start of the entry's range
  std::uint64_t address = 0;    // of the first octet, in the owner's address space
  std::uint64_t shared_at = 0;  // of the first octet, in the owner's shared memory, if kShared
  Backing backing = Backing::kPrivate;
  std::uint16_t generation = 0;  // of the entry
  SharedPart shared{};           // the shared octets, if only a part is shared

  /// A grant of `octets` octets of a region or window; all of them must lie inside.
  [[nodiscard]] static Grant at(const LiveEntry& entry, std::uint64_t offset,
                                std::uint64_t octets) noexcept {
    Grant grant{.entry = entry.entry,
                .offset = offset,
                .address = entry.local + offset,
                .shared_at = entry.shared_at + offset,
                .backing = entry.status.backing,
                .generation = entry.status.generation};
    if (entry.status.backing == Backing::kSharedInside) {
      const SharedPart part = shared_part(entry);
      const std::uint64_t end = offset + octets;
      const std::uint64_t from = std::clamp(part.offset, offset, end);
      const std::uint64_t until = std::clamp(part.offset + part.octets, offset, end);
      grant.shared = {.offset = from - offset, .octets = until - from};
      grant.backing = grant.shared.octets == octets ? Backing::kShared : Backing::kPrivate;
    }
    return grant;
  }

  /// The same access without its first octets; `backing_there` holds for all octets that are left.
  [[nodiscard]] Grant from(std::uint64_t octets_later, Backing backing_there) const noexcept {
    Grant grant = *this;
    grant.offset += octets_later;
    grant.address += octets_later;
    grant.shared_at += octets_later;
    grant.backing = backing_there;
    grant.shared = {};
    return grant;
  }

  /// The octets in the owner's own address space; null for an access of zero octets.
  [[nodiscard]] std::byte* local() const noexcept {
    return pointer_as<std::byte>(static_cast<std::uintptr_t>(address));
  }
};

/// The region that was used last, so that the next use need not look it up. Users of keys keep one
/// for each purpose.
struct KnownRegion {
  // The octets that a pointer of this process reaches: `mapped_octets` from `mapped_base` on, which
  // is an address as keys name it.
  std::byte* mapped = nullptr;
  std::uint64_t mapped_base = 0;
  std::uint64_t mapped_octets = 0;
  LiveEntry copy{};  // of the entry; without an entry no region is known

  [[nodiscard]] bool reaches(std::uint64_t address, std::uint64_t octets) const noexcept {
    const std::uint64_t offset = address - mapped_base;
    return offset < mapped_octets && octets <= mapped_octets - offset;
  }
  /// Records that a pointer reaches `octets` octets of the region, from `offset` on.
  void map(std::byte* at, std::uint64_t offset, std::uint64_t octets) noexcept {
    mapped = at;
    mapped_base = copy.base + offset;
    mapped_octets = octets;
  }
};

/// Looks keys up and runs the checks of IBA Vol 1, 10.6 and 10.7, in the order of Refusal: the
/// first one that fails names the refusal.
///
/// A view of entries in storage that the caller provides, possibly a segment that several processes
/// map: it owns nothing, allocates nothing and holds no pointer into the entries besides the span.
/// Entry i has the keys (first_index + i) << 8 | octet, so that the keys of different processes of
/// one host differ. Any thread may look up, also during a change. The owner serialises changes.
class KeyTable {
 public:
  /// What a queue pair wants to do through a key.
  struct Want {
    wire::MemoryKey key{};
    DomainId domain = DomainId::kNone;
    wire::QpNumber qp{};  // the queue pair that uses the key, for type 2 windows
    std::uint64_t address = 0;
    std::uint64_t octets = 0;
    Access need = Access::kNone;
  };

  KeyTable() noexcept = default;
  KeyTable(std::span<KeyEntry> entries, std::uint32_t first_index) noexcept
      : entries_(entries), first_index_(first_index) {}

  /// A scatter/gather element of the owner's own work request. Zero octets are not checked at all.
  [[nodiscard]] Expected<Grant, Refusal> check_local(const Want& want) const noexcept;

  /// A request that arrived from the peer. Zero octets are not checked at all (10.7.2.2).
  [[nodiscard]] Expected<Grant, Refusal> check_remote(const Want& want) const noexcept;

  /// Whether a FLUSH of a whole region may use the key: everything but the range.
  [[nodiscard]] Expected<Grant, Refusal> check_whole(const Want& want) const noexcept;

  /// The same result as check_local() and check_remote() for the most frequent case: at least one
  /// octet, all of one region, and the same region as the last time. Null means that the caller
  /// must call one of those functions; it does not mean a refusal.
  ///
  /// A region that is not the last one is recorded in `known`, and so is a part of it that no
  /// pointer reached: `map(known, address)` then finds a pointer to the octets around that address.
  template <typename Map>
  [[nodiscard, gnu::always_inline]] inline std::byte* recall(const Want& want, KnownRegion& known,
                                                             Map&& map) const noexcept {
    const bool is_known = known.copy.status.live == static_cast<std::uint32_t>(want.key) &&
                          known.copy.entry != nullptr && is_unchanged(known.copy);
    if (!is_known || !known.reaches(want.address, want.octets)) [[unlikely]] {
      if (!is_known && !learn(want.key, known)) return nullptr;
      map(known, want.address);
      if (!known.reaches(want.address, want.octets)) return nullptr;
    }
    const bool is_allowed =
        known.copy.domain == want.domain && allows(known.copy.access, want.need);
    return is_allowed ? known.mapped + (want.address - known.mapped_base) : nullptr;
  }

  [[nodiscard]] KeyEntry* find(wire::MemoryKey key) const noexcept {
    const std::uint32_t index = (static_cast<std::uint32_t>(key) >> 8) - first_index_;
    return index < entries_.size() ? &entries_[index] : nullptr;
  }
  [[nodiscard]] KeyEntry& at(std::uint32_t index) const noexcept { return entries_[index]; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(entries_.size());
  }
  [[nodiscard]] std::uint32_t index_of(const KeyEntry& entry) const noexcept {
    return static_cast<std::uint32_t>(&entry - entries_.data());
  }
  [[nodiscard]] std::uint32_t first_index() const noexcept { return first_index_; }

 private:
  [[nodiscard]] bool learn(wire::MemoryKey key, KnownRegion& known) const noexcept;
  /// Copies the entry that `key` names, if the key is valid now.
  [[nodiscard]] Refusal read_entry(wire::MemoryKey key, LiveEntry& copy) const noexcept;

  std::span<KeyEntry> entries_;    // the caller's storage, for as long as the adapter exists
  std::uint32_t first_index_ = 0;  // the upper 24 key bits of entry 0
};

}  // namespace verbatim::memory
