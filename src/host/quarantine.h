// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "host/segment.h"

namespace verbatim::host {

/// Blocks of our segment that a peer may still store into: one that was stopped in the middle of a
/// request, and that nobody waits for any longer. Nothing that such a stray touches is used again
/// before it has gone, by leaving or by dying; everything else goes back to the segment at once.
///
/// Thread: whoever holds the adapter's lock.
class Quarantine {
 public:
  struct Stray {
    std::function<bool()> has_gone;         // asked at every look(), true for good
    std::vector<const std::byte*> touches;  // first octets of blocks
    std::function<void()> farewell{};       // once it has gone, before its blocks are used again
  };

  explicit Quarantine(Segment& segment) noexcept : segment_(segment) {}
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  void add(Stray stray) { strays_.push_back({.stray = std::move(stray), .blocks = {}}); }
  /// In place of Segment::give_back() for all that peers may touch.
  void give_back(std::span<std::byte> block);
  /// Lets go of what those held up who have gone since.
  void look();

  /// In a forked child: nobody stores into its memory, and nothing of it is used again.
  void forget() noexcept { strays_.clear(); }

  [[nodiscard]] bool is_empty() const noexcept { return strays_.empty(); }
  /// Blocks that wait for somebody to go.
  [[nodiscard]] std::size_t held_count() const noexcept;

 private:
  struct Held {
    Stray stray;
    std::vector<std::span<std::byte>> blocks;  // given back meanwhile
  };
  Segment& segment_;
  std::list<Held> strays_;
};

}  // namespace verbatim::host
