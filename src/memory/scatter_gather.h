// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "memory/key_table.h"

namespace verbatim::memory {

/// One element of a scatter/gather list, laid out as in the verbs.
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t octets = 0;
  wire::MemoryKey lkey{};
};

[[nodiscard]] inline std::uint64_t total_octets(std::span<const Sge> list) noexcept {
  std::uint64_t total = 0;
  for (const Sge& sge : list) total += sge.octets;
  return total;
}

/// A place in a scatter/gather list, as plain data, so that it may live in shared memory.
struct SgeCursor {
  std::uint32_t index = 0;   // element
  std::uint32_t offset = 0;  // octets into it
};

/// Which queue pair accesses local memory, and with which right.
struct LocalAccess {
  const KeyTable* table = nullptr;
  DomainId domain = DomainId::kNone;
  Access need = Access::kNone;  // kLocalWrite to store into the list, kNone to load from it
};

/// Walks `octets` octets of a list from `cursor` on, checks the key of each element when it reaches
/// it, and calls `visit(std::span<std::byte>)` for every contiguous piece. Afterwards the cursor
/// stands behind the last octet. When an element is refused, the pieces before it have been
/// visited, and the cursor stands at that element. kBeyondRange when the list is too short; the
/// cursor is then at its end.
template <typename Visit>
[[nodiscard]] BasicStatus<Refusal> walk(std::span<const Sge> list, SgeCursor& cursor,
                                        std::uint64_t octets, const LocalAccess& access,
                                        Visit&& visit) noexcept {
  while (octets > 0) {
    if (cursor.index >= list.size()) return Refusal::kBeyondRange;
    const Sge& sge = list[cursor.index];
    // The cursor may come from shared memory, so its offset may lie behind the end of the element.
    const std::uint32_t left = sge.octets - std::min(cursor.offset, sge.octets);
    const auto piece = static_cast<std::uint32_t>(std::min<std::uint64_t>(octets, left));
    if (piece > 0) {
      auto grant = access.table->check_local({.key = sge.lkey,
                                              .domain = access.domain,
                                              .qp = {},
                                              .address = sge.address + cursor.offset,
                                              .octets = piece,
                                              .need = access.need});
      if (!grant) return grant.error();
      visit(std::span<std::byte>(grant->local(), piece));
      octets -= piece;
      cursor.offset += piece;
    }
    if (cursor.offset >= sge.octets) cursor = {.index = cursor.index + 1, .offset = 0};
  }
  return Ok{};
}

/// The cursor of octet `position` of the list (its end, if the list is shorter). Costs a step per
/// element, so walk() does not use it.
[[nodiscard]] inline SgeCursor cursor_at(std::span<const Sge> list,
                                         std::uint64_t position) noexcept {
  std::uint32_t index = 0;
  while (index < list.size() && position >= list[index].octets) position -= list[index++].octets;
  const bool inside = index < list.size();
  return {.index = index, .offset = inside ? static_cast<std::uint32_t>(position) : 0};
}

}  // namespace verbatim::memory
