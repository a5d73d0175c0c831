// SPDX-License-Identifier: Apache-2.0
#include "device/segment_layout.h"

#include <new>

#include "base/pointer.h"
#include "device/limits.h"
#include "host/membarrier.h"
#include "host/slot.h"

namespace verbatim::device {

Status SegmentLayout::lay_out(host::Segment& segment, const Owner& owner) noexcept {
  const auto header = segment.take(sizeof(host::SegmentHeader));
  const auto keys = segment.take(kMaxKeys * sizeof(memory::KeyEntry));
  const auto halves = segment.take(host::kNumbersPerSlot * sizeof(direct::HalfRecord));
  const auto bells = segment.take(host::Bells::kOctets);
  const auto queue_pairs = segment.take(host::kNumbersPerSlot * sizeof(direct::QueuePairRecord));
  const auto adapter = segment.take(sizeof(AdapterRecord));
  for (const auto& block : {header, keys, halves, bells, queue_pairs, adapter}) {
    if (block.empty()) return Errc::kNoMemory;
  }
  const std::uint32_t first_key = owner.slot * host::kNumbersPerSlot + 1;
  keys_ = memory::KeyTable({pointer_as<memory::KeyEntry>(keys.data()), kMaxKeys}, first_key);
  halves_ = pointer_as<direct::HalfRecord>(halves.data());
  bells_ = host::Bells(bells.data());
  queue_pairs_ = pointer_as<direct::QueuePairRecord>(queue_pairs.data());

  adapter_ = new (adapter.data()) AdapterRecord;
  adapter_->opened_at = owner.opened_at.since_start().count();
  adapter_->path = owner.path;
  adapter_->path_cause = owner.path_cause;
  owner.device.copy(adapter_->device.data(), adapter_->device.size() - 1);
  owner.interface.copy(adapter_->interface.data(), adapter_->interface.size() - 1);

  header_ = new (header.data()) host::SegmentHeader;
  header_->magic = host::SegmentHeader::kMagic;
  header_->version = host::SegmentHeader::kVersion;
  header_->octets = segment.octets();
  header_->keys_at = segment.offset_of(keys.data());
  header_->key_count = kMaxKeys;
  header_->first_key = first_key;
  header_->halves_at = segment.offset_of(halves.data());
  header_->half_count = host::kNumbersPerSlot;
  header_->bells_at = segment.offset_of(bells.data());
  header_->queue_pairs_at = segment.offset_of(queue_pairs.data());
  header_->adapter_at = segment.offset_of(adapter.data());
  header_->slot = owner.slot;
  header_->fencing = static_cast<std::uint32_t>(host::Membarrier::global());
  for (const GidEntry& entry : owner.addresses) {
    if (header_->address_count == host::SegmentHeader::kAddressCount) break;
    header_->addresses[header_->address_count++] = entry.gid.octets;
  }
  return Ok{};
}

}  // namespace verbatim::device
