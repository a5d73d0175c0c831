// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "host/own_descriptor.h"

namespace verbatim::host {

/// Mapped parts of the arena of a peer. The arena is a memory file far larger than this process
/// could map. Parts are mapped when they are first used, and stay mapped while the peer is known.
///
/// Any thread.
class ArenaViews {
 public:
  /// A mapped part.
  struct View {
    std::uint64_t first = 0;  // offset in the file
    std::uint64_t octets = 0;
    std::byte* at = nullptr;  // null: none

    [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t count) const noexcept {
      return offset >= first && offset - first <= octets && count <= octets - (offset - first);
    }
  };

  ArenaViews() noexcept = default;
  ArenaViews(const ArenaViews&) = delete;
  ArenaViews& operator=(const ArenaViews&) = delete;
  ~ArenaViews();

  /// Takes the descriptor. A file that is not sealed against shrinking is not used.
  void open(int descriptor) noexcept;

  /// A view that contains these octets; none when the file or the address space is too small.
  [[nodiscard]] View find(std::uint64_t offset, std::uint64_t octets) noexcept;

 private:
  Mutex mutex_;
  pid_t process_ = 0;  // that has mapped the views: they are not mapped in a forked child
  std::vector<View> views_ VB_GUARDED_BY(mutex_);
  OwnDescriptor descriptor_;
  std::uint64_t file_octets_ = 0;
};

}  // namespace verbatim::host
