// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "base/pointer.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// Storage for the blocks of queues, for tests: aligned to a cache line and filled with a pattern,
/// as reused memory is.
class TestBlock {
 public:
  explicit TestBlock(std::size_t octets) : lines_((octets + 63) / 64), octets_(octets) {
    std::ranges::fill(span(), std::byte{0xa5});
  }
  [[nodiscard]] std::byte* data() noexcept { return lines_.data()->octets; }
  [[nodiscard]] std::span<std::byte> span() noexcept { return {data(), octets_}; }

  /// The number at that offset of the block.
  [[nodiscard]] std::uint32_t& word(std::size_t at) noexcept {
    return *pointer_as<std::uint32_t>(data() + at);
  }

 private:
  struct alignas(64) Line {
    std::byte octets[64];
  };
  std::vector<Line> lines_;
  std::size_t octets_;
};

/// A completion with this wr_id.
[[nodiscard]] inline Completion completion(std::uint64_t wr_id) noexcept {
  Completion made;
  made.wr_id = wr_id;
  return made;
}

}  // namespace verbatim::transport
