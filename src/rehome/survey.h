// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include "base/expected.h"
#include "rehome/arena.h"
#include "rehome/range.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// Neighbouring pages of one mapping.
struct Stretch {
  Range range;
  int protection = 0;        // PROT_READ and PROT_WRITE
  std::uint64_t offset = 0;  // in the arena, if it is there
  bool is_in_arena = false;  // mapped from the arena, wherever that is
};

/// What /proc/self says about some addresses. It is a photograph: other threads may map and unmap.
struct Survey {
  static constexpr std::size_t kStretchesMax = 64;  // of one range; a malloc'ed one has one or two
  std::array<Stretch, kStretchesMax> stretches = {};
  std::size_t count = 0;

  [[nodiscard]] const Stretch* begin() const noexcept { return stretches.data(); }
  [[nodiscard]] const Stretch* end() const noexcept { return stretches.data() + count; }
};

/// The stretches of whole pages, without gaps: each may be moved into the arena, or is there at its
/// place; else the reason why not.
[[nodiscard]] Expected<Survey, Why> survey_pages(Range pages, const Arena& arena) noexcept;

/// Where the program has mapped what the arena holds for these pages: at home, or elsewhere after
/// an mremap(2). kManyMappings when there are more than fit; the result has the first ones then.
[[nodiscard]] Moved survey_arena(Range pages, const Arena& arena, Survey& found) noexcept;

}  // namespace verbatim::rehome
