// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/pointer.h"
#include "direct/half_record.h"
#include "host/bells.h"
#include "host/peer.h"
#include "host/segment_header.h"
#include "wire/headers/ids.h"

namespace verbatim::direct {

/// The records of the halves in a segment, by number. Empty when the segment has none, or when the
/// system does not make them accessible.
class HalfTable {
 public:
  /// In the segment of this process.
  [[nodiscard]] static HalfTable of(const std::byte* own_segment) noexcept {
    const auto& header = *pointer_as<const host::SegmentHeader>(own_segment);
    if (!exists(header)) return {};
    return {const_cast<std::byte*>(own_segment) + header.halves_at, header.half_count};
  }
  [[nodiscard]] static HalfTable of(host::Peer& peer) noexcept {
    const host::SegmentHeader& header = peer.header();
    if (!exists(header)) return {};
    std::byte* const at = peer.at(header.halves_at, header.half_count * sizeof(HalfRecord));
    if (at == nullptr) return {};
    return {at, header.half_count};
  }

  /// Null when the table has no place for that queue pair.
  [[nodiscard]] HalfRecord* find(wire::QpNumber number) const noexcept {
    const std::uint32_t index = static_cast<std::uint32_t>(number) % host::Bells::kCount;
    return index < records_.size() ? &records_[index] : nullptr;
  }

 private:
  HalfTable() noexcept = default;
  HalfTable(std::byte* at, std::uint32_t count) noexcept
      : records_(pointer_as<HalfRecord>(at), count) {}
  static bool exists(const host::SegmentHeader& header) noexcept {
    return header.holds(header.halves_at, header.half_count, sizeof(HalfRecord));
  }

  std::span<HalfRecord> records_;
};

}  // namespace verbatim::direct
