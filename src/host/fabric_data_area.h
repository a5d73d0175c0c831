// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "host/fabric_key_violations.h"

namespace verbatim::host {

/// The memory file of one data port, which its process and the process of the fabric map: packets
/// that leave, packets that arrive, and the words by which the two wake each other.
///
/// Each word has one writer, but for those of the two bells. Neither side trusts the other: it
/// counts in memory of its own, and what the other side wrote is checked at each use.
///
///   - A packet that leaves: the process finds a buffer that is not busy, fills it, sets its busy
///     flag and posts it in the sending ring. The fabric clears the flag when it has no more use
///     for the buffer, in any order. A buffer is posted once while it is busy, so the sending ring
///     has always room.
///   - A packet that arrives: the fabric writes it into the arrival ring, one entry behind the
///     other, and the process releases the entries in this order.
///   - wants_bell: the fabric does not look at this data port, and the process rings the fabric's
///     bell for it.
///   - A packet that a queue pair of the process refuses because of a key: the process counts it in
///     `violations`, and rings the fabric as after a post.
///   - is_rung: the bell of the process was rung, or is about to be, and the process has not
///     lowered it yet, so the fabric need not ring again. While it is clear, the bell is not
///     readable.
///
/// A fresh memory file is zero, which is a valid area but for the first two words.
struct FabricDataArea {
  static constexpr std::uint32_t kMagic = 0x5642'4671;
  static constexpr std::uint32_t kVersion = 2;
  static constexpr std::uint32_t kBuffers = 256;
  // A packet of the largest MTU with all its headers has 4,192 octets.
  static constexpr std::uint32_t kBufferOctets = 4352;
  static constexpr std::uint32_t kRingOctets = 1U << 20;
  // Bits of wants_bell: at the next post, and at the next release as well.
  static constexpr std::uint32_t kAtPost = 1;
  static constexpr std::uint32_t kAtRelease = 2;
  static constexpr std::size_t kLine = 64;

  std::uint32_t magic;
  std::uint32_t version;
  // By the process. Numbers of entries and of octets since the beginning, which wrap around.
  alignas(kLine) std::atomic<std::uint32_t> posted;
  alignas(kLine) std::atomic<std::uint32_t> released;
  // By the fabric.
  alignas(kLine) std::atomic<std::uint32_t> arrived;  // octets
  // By both.
  alignas(kLine) std::atomic<std::uint32_t> wants_bell;
  alignas(kLine) std::atomic<std::uint32_t> is_rung;
  alignas(kLine) std::array<std::atomic<std::uint8_t>, kBuffers> is_busy;
  // By the process, by FabricKey.
  alignas(kLine) std::array<FabricKeyViolations, kFabricKeys> violations;
  // By the process: 31..24 the rate of the packet's path, as verbs count rates | 23..16 the number
  // of a buffer | 15..0 octets.
  alignas(kLine) std::array<std::atomic<std::uint32_t>, kBuffers> sending;

  static constexpr std::size_t kPage = 4096;
  alignas(kPage) std::array<std::array<std::byte, kBufferOctets>, kBuffers> buffers;
  alignas(kPage) std::array<std::byte, kRingOctets> arrivals;
};
static_assert(sizeof(FabricDataArea) % FabricDataArea::kPage == 0);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace verbatim::host
