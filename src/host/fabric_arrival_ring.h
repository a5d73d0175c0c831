// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "host/fabric_data_area.h"

namespace verbatim::host {

/// An entry of the arrival ring: a head of eight octets and the packet, rounded up to 64 octets. It
/// does not wrap around: where the end of the ring is too near, an entry that is all head says that
/// the next one is at the beginning.
struct FabricArrivalEntry {
  static constexpr std::uint32_t kHeadOctets = 8;
  static constexpr std::uint32_t kGrain = 64;
  static constexpr std::uint32_t kSkip = 0xffff'ffff;  // instead of the octets of a packet
  /// Of the entry with a packet of so many.
  [[nodiscard]] static constexpr std::uint32_t octets_with(std::uint32_t packet) noexcept {
    return (kHeadOctets + packet + kGrain - 1) / kGrain * kGrain;
  }
};

/// The fabric's side of an arrival ring. Thread: one.
class FabricArrivalWriter {
 public:
  FabricArrivalWriter() noexcept = default;
  explicit FabricArrivalWriter(FabricDataArea* area) noexcept : area_(area) {}

  /// Whether there is room for a packet of so many octets.
  [[nodiscard]] bool has_room(std::uint32_t octets) noexcept {
    return is_free(entry_octets(octets)) || (look(), is_free(entry_octets(octets)));
  }
  /// Copies a packet of at most kBufferOctets into the ring. False: there is no room.
  [[nodiscard]] bool put(std::span<const std::byte> packet) noexcept;
  /// How far the process has released the ring; changes whenever it does.
  [[nodiscard]] std::uint32_t released() const noexcept {
    return area_->released.load(std::memory_order_relaxed);
  }

 private:
  using Area = FabricDataArea;
  [[nodiscard]] std::uint32_t to_end() const noexcept {
    return Area::kRingOctets - arrived_ % Area::kRingOctets;
  }
  /// With what is skipped at the end of the ring.
  [[nodiscard]] std::uint32_t entry_octets(std::uint32_t packet) const noexcept {
    const std::uint32_t octets = FabricArrivalEntry::octets_with(packet);
    return octets <= to_end() ? octets : to_end() + octets;
  }
  /// Nonsense of the process looks like a full ring.
  [[nodiscard]] bool is_free(std::uint32_t octets) const noexcept {
    const std::uint32_t used = arrived_ - released_;
    return used <= Area::kRingOctets && octets <= Area::kRingOctets - used;
  }
  void look() noexcept {
    released_ = area_->released.load(std::memory_order_acquire);  // pairs with release()
  }
  void write_head(std::uint32_t octets) noexcept {
    std::memcpy(&area_->arrivals[arrived_ % Area::kRingOctets], &octets, sizeof octets);
  }

  FabricDataArea* area_ = nullptr;
  std::uint32_t arrived_ = 0;
  std::uint32_t released_ = 0;  // when it was looked at last
};

/// The process's side of an arrival ring. Thread: one at a time.
class FabricArrivalReader {
 public:
  FabricArrivalReader() noexcept = default;
  explicit FabricArrivalReader(FabricDataArea* area) noexcept : area_(area) {}

  /// The next packet, which stays until release(). Empty: none is there.
  [[nodiscard]] std::span<const std::byte> next() noexcept;
  [[nodiscard]] bool is_empty() const noexcept {
    return is_broken_ || area_->arrived.load(std::memory_order_acquire) == read_;
  }
  /// All packets that next() has returned make room for others.
  void release() noexcept {
    released_ = read_;
    area_->released.store(read_, std::memory_order_release);  // pairs with look()
  }
  /// Whether next() has returned a packet that was not released.
  [[nodiscard]] bool has_unreleased() const noexcept { return released_ != read_; }
  /// What the fabric wrote made no sense; next() returns nothing any more.
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }

 private:
  [[nodiscard]] std::span<const std::byte> stop() noexcept {
    is_broken_ = true;
    return {};
  }

  FabricDataArea* area_ = nullptr;
  std::uint32_t read_ = 0;
  std::uint32_t released_ = 0;  // as in the area
  std::uint32_t arrived_ = 0;   // when it was looked at last
  bool is_broken_ = false;
};

}  // namespace verbatim::host
