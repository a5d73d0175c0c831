// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace verbatim::host {

/// The first octets of every segment: where a peer finds its parts. Plain data. A process that
/// attaches copies it once, checks the copy, and never reads the original again.
struct alignas(64) SegmentHeader {
  static constexpr std::uint32_t kMagic = 0x5642'5347;
  /// A segment of another version has other contents, or its door other messages: processes of
  /// different versions communicate through packets.
  static constexpr std::uint32_t kVersion = 10;
  static constexpr std::size_t kAddressCount = 64;

  std::uint32_t magic = 0;
  std::uint32_t version = 0;
  std::uint64_t octets = 0;          // of the segment
  std::uint64_t keys_at = 0;         // its key table
  std::uint64_t halves_at = 0;       // the receiving halves of its queue pairs, by number
  std::uint64_t bells_at = 0;        // a bit per queue pair, see Bells
  std::uint64_t queue_pairs_at = 0;  // records of queue pairs for viewers, by number
  std::uint64_t adapter_at = 0;      // record of the adapter for viewers
  std::uint32_t key_count = 0;
  std::uint32_t first_key = 0;  // index of entry 0
  std::uint32_t half_count = 0;
  std::uint32_t slot = 0;
  std::uint32_t fencing = 0;  // Fencing: whether its owner can call membarrier(2)
  std::uint32_t address_count = 0;
  std::array<std::array<std::uint8_t, 16>, kAddressCount> addresses{};  // GIDs of the device

  /// Whether `count` objects of `size` octets at `at` lie inside, aligned to a cache line.
  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t count,
                           std::uint64_t size) const noexcept {
    return at % 64 == 0 && at <= octets && count <= (octets - at) / size;
  }
};
static_assert(std::is_trivially_copyable_v<SegmentHeader>);

}  // namespace verbatim::host
