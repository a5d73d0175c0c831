// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "base/expected.h"
#include "rehome/arena.h"
#include "rehome/mapping_reader.h"
#include "rehome/range.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Neighbouring pages of one mapping.
struct Stretch {
  Range range;
  int protection = 0;        // PROT_READ and PROT_WRITE
  bool is_in_arena = false;  // mapped from the arena, at the offset of its address
};

/// The mappings of some addresses as the kernel reports them. Other threads may change them.
struct Survey {
  static constexpr std::size_t kStretchesMax = 64;  // of one range; malloc(3)'ed memory has 1 or 2
  std::array<Stretch, kStretchesMax> stretches = {};
  std::size_t count = 0;

  [[nodiscard]] const Stretch* begin() const noexcept { return stretches.data(); }
  [[nodiscard]] const Stretch* end() const noexcept { return stretches.data() + count; }
};

/// The stretches of whole pages, without gaps: each may be moved into the arena, or is there
/// already. Otherwise the reason why not.
[[nodiscard]] Expected<Survey, Why> survey_pages(Range pages, const Arena& arena) noexcept;

/// Whether the memory at an address is locked (mlock(2)), or of another kind that the kernel does
/// not take away.
[[nodiscard]] bool is_locked(std::uintptr_t address) noexcept;

/// Whether the program has protection keys (pkeys(7)). Few kernels' listings of mappings show which
/// mapping has one, and a new mapping in its place has none.
[[nodiscard]] bool has_protection_keys() noexcept;

/// Keeps mremap(2) from enlarging a mapping of the arena: the pages of the arena after it belong to
/// other addresses. The last page becomes a separate mapping, and the kernel refuses to enlarge
/// several mappings at once.
void forbid_growth(Range pages, std::size_t page) noexcept;

/// PROT_READ, PROT_WRITE and PROT_EXEC.
[[nodiscard]] int protection_of(const Mapping& mapping) noexcept;

/// Whether it is mapped from the arena, at the offset of its address.
[[nodiscard]] bool is_at_its_place(const Mapping& mapping, const Arena& arena) noexcept;

/// Calls `visit(stretch)` for each part of a range that is mapped from the arena at the offset of
/// its address. Allocates nothing. Returns 0, or a negative errno value.
template <typename Visit>
long for_each_arena_stretch(Range pages, const Arena& arena, Visit&& visit) noexcept {
  return for_each_mapping(pages.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= pages.end) return false;
    if (!is_at_its_place(mapping, arena)) return true;
    visit(Stretch{.range = common(mapping.range, pages),
                  .protection = protection_of(mapping),
                  .is_in_arena = true});
    return true;
  });
}

}  // namespace verbatim::rehome
