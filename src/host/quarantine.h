// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "host/segment.h"

namespace verbatim::host {

/// Blocks of this process's segment that a stray may still write: a peer that was stopped in the
/// middle of a request, and that the owner no longer waits for. A block that a stray touches is not
/// used again before the stray has left or died. Every other block goes back to the segment at
/// once.
///
/// Thread: the one that holds the adapter's lock.
class Quarantine {
 public:
  struct Stray {
    std::function<bool()> has_gone;         // called at every look(); once true, always true
    std::vector<const std::byte*> touches;  // first octets of blocks
    std::function<void()> on_gone{};        // called when it has gone, before its blocks are reused
  };

  explicit Quarantine(Segment& segment) noexcept : segment_(segment) {}
  Quarantine(const Quarantine&) = delete;
  Quarantine& operator=(const Quarantine&) = delete;

  void add(Stray stray) { strays_.push_back({.stray = std::move(stray), .blocks = {}}); }
  /// To be called instead of Segment::give_back() for every block that peers may touch.
  void give_back(std::span<std::byte> block);
  /// Gives back the blocks of strays that have gone since.
  void look();

  /// In a forked child: no peer writes to its memory, and no block of it is reused.
  void forget() noexcept { strays_.clear(); }

  [[nodiscard]] bool is_empty() const noexcept { return strays_.empty(); }
  /// How many blocks wait for a stray.
  [[nodiscard]] std::size_t held_count() const noexcept;

 private:
  struct Held {
    Stray stray;
    std::vector<std::span<std::byte>> blocks;  // given back since it became a stray
  };
  Segment& segment_;
  std::list<Held> strays_;
};

}  // namespace verbatim::host
