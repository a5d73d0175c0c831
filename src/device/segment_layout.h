// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/expected.h"
#include "base/time.h"
#include "device/adapter_record.h"
#include "device/config.h"
#include "device/port_info.h"
#include "direct/half_record.h"
#include "direct/queue_pair_record.h"
#include "host/bells.h"
#include "host/segment.h"
#include "host/segment_header.h"
#include "host/slot.h"
#include "memory/key_table.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// Which record lies where in the segment of an adapter: the header at offset zero, and behind it
/// the tables that the header names. Peers and viewers find everything through the header.
///
/// The records live as long as the segment. The type of each record says which process writes it,
/// and with which lock.
class SegmentLayout {
 public:
  /// The contents of the header and of the adapter's record.
  struct Owner {
    std::uint32_t slot = 0;
    std::string_view device{};
    std::string_view interface {};
    std::span<const GidEntry>
        addresses{};  // those beyond SegmentHeader::kAddressCount are left out
    DataPathPolicy path{};
    DataPathCause path_cause{};
    Instant opened_at{};
  };

  /// In a segment that is open and has no blocks yet. kNoMemory when it is too small.
  [[nodiscard]] Status lay_out(host::Segment& segment, const Owner& owner) noexcept;

  [[nodiscard]] host::SegmentHeader& header() const noexcept { return *header_; }
  [[nodiscard]] memory::KeyTable keys() const noexcept { return keys_; }
  [[nodiscard]] host::Bells bells() const noexcept { return bells_; }
  /// For viewers.
  [[nodiscard]] AdapterRecord& adapter() const noexcept { return *adapter_; }
  /// Where other processes find the receiving half of a queue pair of this process.
  [[nodiscard]] direct::HalfRecord& half(wire::QpNumber number) const noexcept {
    return halves_[index_of(number)];
  }
  /// What viewers see of a queue pair.
  [[nodiscard]] direct::QueuePairRecord& queue_pair(wire::QpNumber number) const noexcept {
    return queue_pairs_[index_of(number)];
  }

 private:
  [[nodiscard]] static std::uint32_t index_of(wire::QpNumber number) noexcept {
    return static_cast<std::uint32_t>(number) % host::kNumbersPerSlot;
  }

  host::SegmentHeader* header_ = nullptr;
  memory::KeyTable keys_;
  host::Bells bells_;
  AdapterRecord* adapter_ = nullptr;
  direct::HalfRecord* halves_ = nullptr;            // by number within the slot
  direct::QueuePairRecord* queue_pairs_ = nullptr;  // likewise
};

}  // namespace verbatim::device
