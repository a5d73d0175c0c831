// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "memory/key_entry.h"
#include "memory/refusal.h"

namespace verbatim::memory {

inline constexpr std::uint32_t kKeyIndexLimit = 1U << 24;  // an index is the upper 24 key bits

/// The octets of a region that peers map, from `offset` on.
struct SharedPart {
  std::uint64_t offset = 0;
  std::uint64_t octets = 0;
};

/// All of it, or the pages that it has as a whole, or nothing.
[[nodiscard]] inline SharedPart shared_part(const LiveEntry& region) noexcept {
  if (region.status.backing == Backing::kShared) return {.offset = 0, .octets = region.octets};
  if (region.status.backing != Backing::kSharedInside) return {};
  constexpr std::uint64_t kPage = kSharedPageOctets;
  const std::uint64_t first = (region.local + kPage - 1) / kPage * kPage;
  const std::uint64_t past = (region.local + region.octets) / kPage * kPage;
  if (past <= first) return {};
  return {.offset = first - region.local, .octets = past - first};
}

/// An access that was allowed: which entry allows it, and where the octets are. Places are those of
/// the instant of the check: the entry itself may be bound anew at any time.
///
/// For an access of zero octets nothing was looked up, and the grant names nothing.
struct Grant {
  const KeyEntry* entry = nullptr;
  std::uint64_t offset = 0;     // octets from the start of the entry's range
  std::uint64_t address = 0;    // of the first octet, in the owner's address space
  std::uint64_t shared_at = 0;  // of the first octet, in the owner's shared memory, if kShared
  Backing backing = Backing::kPrivate;
  std::uint16_t generation = 0;  // of the entry
  SharedPart shared{};           // what of the octets is shared though not all are

  /// So many octets of a region or window, all of them inside.
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

  /// The same access from a later octet on, of which all have that backing.
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
    return std::bit_cast<std::byte*>(static_cast<std::uintptr_t>(address));
  }
};

/// The region that somebody used last, so that the next use need not look it up: kept by whoever
/// uses keys, one for each purpose.
struct KnownRegion {
  // As far as a pointer of ours reaches it: the octets `mapped_octets` from `mapped_base` on, which
  // is an address as keys name it.
  std::byte* mapped = nullptr;
  std::uint64_t mapped_base = 0;
  std::uint64_t mapped_octets = 0;
  LiveEntry said{};  // of no entry: none is known

  [[nodiscard]] bool reaches(std::uint64_t address, std::uint64_t octets) const noexcept {
    const std::uint64_t offset = address - mapped_base;
    return offset < mapped_octets && octets <= mapped_octets - offset;
  }
  /// A pointer reaches so many octets of it, from `offset` on.
  void map(std::byte* at, std::uint64_t offset, std::uint64_t octets) noexcept {
    mapped = at;
    mapped_base = said.base + offset;
    mapped_octets = octets;
  }
};

/// Looks keys up and runs the checks of IBA Vol 1, 10.6 and 10.7, in the order of Refusal: the
/// first one that fails names the refusal.
///
/// A view of entries in storage that the caller provides, possibly a segment mapped by several
/// processes: it owns nothing, allocates nothing and holds no pointer into the entries besides the
/// span. Entry i has the keys (first_index + i) << 8 | octet, so that keys of the processes of one
/// host do not collide. Any thread may look up, also during a change; changes are serialised by the
/// owner.
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

  /// The same as check_local() and check_remote() for what programs do most: octets, at least one,
  /// of one region, and of the same as the last time. Null says nothing but that one of those must
  /// be asked.
  ///
  /// A region that is not the last one is learned, and so is a part of it that no pointer reached:
  /// `map(known, address)` then says how one reaches what is around that address.
  template <typename Map>
  [[nodiscard, gnu::always_inline]] inline std::byte* recall(const Want& want, KnownRegion& known,
                                                             Map&& map) const noexcept {
    const bool is_known = known.said.status.live == static_cast<std::uint32_t>(want.key) &&
                          known.said.entry != nullptr && says_the_same(known.said);
    if (!is_known || !known.reaches(want.address, want.octets)) [[unlikely]] {
      if (!is_known && !learn(want.key, known)) return nullptr;
      map(known, want.address);
      if (!known.reaches(want.address, want.octets)) return nullptr;
    }
    const bool is_allowed =
        known.said.domain == want.domain && allows(known.said.access, want.need);
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
  /// Copies the entry that `key` names, if the key works now.
  [[nodiscard]] Refusal read_entry(wire::MemoryKey key, LiveEntry& copy) const noexcept;

  std::span<KeyEntry> entries_;    // the caller's storage, as long as the adapter
  std::uint32_t first_index_ = 0;  // the upper 24 key bits of entry 0
};

}  // namespace verbatim::memory
