// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"

namespace verbatim::memory {

/// Numbers a protection domain (IBA Vol 1, 10.2.3) within one adapter.
enum class DomainId : std::uint32_t { kNone = 0 };

/// The protection domains of one adapter, and how many objects each contains: a domain cannot be
/// closed while it contains a region, window, queue pair, receive queue or address handle.
///
/// The caller owns the storage; entry i is domain i + 1. Thread: the one that holds the adapter's
/// lock.
class DomainTable {
 public:
  struct Entry {
    bool open = false;
    std::uint32_t users = 0;  // objects that name this domain
  };

  explicit DomainTable(std::span<Entry> entries) noexcept : entries_(entries) {}

  [[nodiscard]] Expected<DomainId> open() noexcept {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].open) continue;
      entries_[i] = {.open = true, .users = 0};
      return DomainId(static_cast<std::uint32_t>(i + 1));
    }
    return Errc::kNoMemory;
  }

  [[nodiscard]] Status close(DomainId id) noexcept {
    Entry* entry = find(id);
    if (entry == nullptr) return Errc::kInvalidArgument;
    if (entry->users != 0) return Errc::kBusy;
    entry->open = false;
    return Ok{};
  }

  [[nodiscard]] Status add_user(DomainId id) noexcept {
    Entry* entry = find(id);
    if (entry == nullptr) return Errc::kInvalidArgument;
    ++entry->users;
    return Ok{};
  }

  void drop_user(DomainId id) noexcept {
    Entry* entry = find(id);
    VB_ASSERT(entry != nullptr && entry->users > 0);
    --entry->users;
  }

 private:
  [[nodiscard]] Entry* find(DomainId id) noexcept {
    const auto index = static_cast<std::uint32_t>(id) - 1;  // kNone wraps beyond any table
    return index < entries_.size() && entries_[index].open ? &entries_[index] : nullptr;
  }
  std::span<Entry> entries_;  // the caller's, for as long as the adapter exists
};

}  // namespace verbatim::memory
