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
  bool is_in_arena = false;  // mapped from the arena, at its place there
};

/// What the kernel says about the mappings of some addresses. Other threads may change them.
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

/// The parts of a range that are mapped from the arena at their place there, at most as many as
/// fit.
[[nodiscard]] Survey survey_arena(Range pages, const Arena& arena) noexcept;

}  // namespace verbatim::rehome
