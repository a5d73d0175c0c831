// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "host/own_descriptor.h"

namespace verbatim::host {

/// The registered memory of a peer, a memory file far larger than we could map: parts of it, mapped
/// where they are first used and from then on for as long as the peer is known.
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

  /// Takes the descriptor. What is not sealed against shrinking is not used.
  void open(int descriptor) noexcept;

  /// A view that holds these octets; none where the file or the address space ends.
  [[nodiscard]] View find(std::uint64_t offset, std::uint64_t octets) noexcept;

 private:
  std::mutex mutex_;
  pid_t process_ = 0;  // that has mapped the views: a forked child has other memory there, or none
  std::vector<View> views_;
  OwnDescriptor descriptor_;
  std::uint64_t file_octets_ = 0;
};

}  // namespace verbatim::host
