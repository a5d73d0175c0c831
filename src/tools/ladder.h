// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>

#include "sim/observer.h"

namespace verbatim::tools {

/// Prints every frame between two hosts as one line of a ladder diagram, and what happened to it.
class Ladder final : public sim::Observer {
 public:
  /// `colour`: whether the output is a terminal with colours.
  Ladder(std::FILE* out, const wire::Gid& left, bool colour) noexcept
      : out_(out), left_(left), colour_(colour) {}

  void handle_frame(Instant now, const sim::NetworkFrame& frame, sim::Fate fate) override;
  [[nodiscard]] std::uint64_t frame_count() const noexcept { return frames_; }
  [[nodiscard]] std::uint64_t lost_count() const noexcept { return lost_; }

 private:
  std::FILE* out_;
  wire::Gid left_;  // the host whose frames are drawn to the right
  bool colour_;
  std::uint64_t frames_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace verbatim::tools
