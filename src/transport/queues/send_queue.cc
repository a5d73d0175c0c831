// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/send_queue.h"

#include <algorithm>
#include <new>

#include "base/pointer.h"

namespace verbatim::transport {

/// Room for a path or a bind request; the gather list behind it stays aligned.
std::size_t SendQueue::extra_octets(const Limits& limits) noexcept {
  constexpr std::size_t kAlignment = alignof(memory::Sge);
  static_assert(sizeof(SendEntry) % kAlignment == 0 &&
                sizeof(memory::BindRequest) % kAlignment == 0);
  if (limits.carries_paths) return (sizeof(Path) + kAlignment - 1) / kAlignment * kAlignment;
  return limits.carries_binds ? sizeof(memory::BindRequest) : 0;
}

std::size_t SendQueue::stride(const Limits& limits) noexcept {
  const std::size_t data =
      std::max<std::size_t>(limits.sge_limit * sizeof(memory::Sge), limits.inline_limit);
  return (sizeof(SendEntry) + extra_octets(limits) + data + 63) & ~std::size_t{63};
}

SendQueue::SendQueue(std::span<std::byte> block, const Limits& limits) noexcept
    : limits_(limits),
      mask_(ring_size(limits.depth) - 1),
      block_(block.data()),
      stride_(stride(limits)),
      data_offset_(sizeof(SendEntry) + extra_octets(limits)) {
  VB_ASSERT(block.size() >= octets_for(limits));
}

Status SendQueue::check(const SendRequest& request, std::uint64_t octets,
                        Flaw flaw) const noexcept {
  if (request.list.size() > limits_.sge_limit) return Errc::kInvalidArgument;
  if (octets > kMaxMessageOctets) return Errc::kInvalidArgument;
  if (has(request.flags, SendFlags::kInline) && octets > limits_.inline_limit) {
    return Errc::kInvalidArgument;
  }
  const bool is_flawed = flaw.status != WcStatus::kSuccess;
  if (limits_.carries_paths && request.path == nullptr && !is_flawed) {
    return Errc::kInvalidArgument;
  }
  return Ok{};
}

Status SendQueue::post(const SendRequest& request, std::uint32_t uncollected, Flaw flaw,
                       SendFlags more_flags) noexcept {
  const std::uint64_t octets = memory::total_octets(request.list);
  if (auto checked = check(request, octets, flaw); !checked) return checked;
  if (tail_ - head_ + uncollected >= limits_.depth) return Errc::kNoMemory;
  SendEntry& entry = *new (&at(tail_)) SendEntry;
  entry.wr_id = request.wr_id;
  entry.opcode = request.opcode;
  entry.flags = request.flags | more_flags;
  entry.octets = static_cast<std::uint32_t>(octets);
  entry.remote_address = request.remote_address;
  entry.rkey = request.rkey;
  entry.immediate = request.immediate;
  entry.invalidate_key = request.invalidate_key;
  entry.compare_or_add = request.compare_or_add;
  entry.swap = request.swap;
  entry.flush_octets = request.flush_octets;
  entry.flush = request.flush;
  entry.remote_srq = request.remote_srq;
  entry.remote_qp = request.remote_qp;
  entry.remote_qkey = request.remote_qkey;
  entry.failure = flaw.status;
  entry.reason = flaw.reason;
  // The data of a flawed request is not used, and there may be no place for it.
  if (flaw.status == WcStatus::kSuccess) store_data(request, entry);
  ++tail_;
  return Ok{};
}

void SendQueue::store_data(const SendRequest& request, SendEntry& entry) noexcept {
  if (limits_.carries_paths) new (&path_of(entry)) Path(*request.path);
  if (request.opcode == SendOpcode::kBindWindow) {
    new (&bind_of(entry)) memory::BindRequest(request.bind);
    entry.bind_type1 = request.bind_type1;
  }
  if (!has(request.flags, SendFlags::kInline)) {
    entry.sge_count = static_cast<std::uint8_t>(request.list.size());
    std::ranges::copy(request.list, pointer_as<memory::Sge>(data_of(entry)));
    return;
  }
  entry.is_inline = true;
  std::byte* to = data_of(entry);
  for (const memory::Sge& sge : request.list) {
    if (sge.octets == 0) continue;
    std::memcpy(to, pointer_as<const std::byte>(static_cast<std::uintptr_t>(sge.address)),
                sge.octets);
    to += sge.octets;
  }
}

}  // namespace verbatim::transport
