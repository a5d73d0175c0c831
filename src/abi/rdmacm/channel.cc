// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/channel.h"

#include <atomic>

namespace verbatim::abi {
namespace {

/// A thread needs some microseconds from one call of rdma_get_cm_event to the next.
constexpr std::size_t kRetiredLimit = 64;

constinit std::array<std::atomic<CmChannel*>, kRetiredLimit> retired{};
constinit std::atomic<std::size_t> retired_count{0};  // since the process began

}  // namespace

void CmChannel::retire(CmChannel* channel) noexcept {
  channel->queue.retire();
  std::atomic<CmChannel*>& place = retired[retired_count++ % kRetiredLimit];
  CmChannel* const oldest = place.exchange(channel, std::memory_order_acq_rel);
  // A thread that waits in it keeps it.
  if (oldest != nullptr && !oldest->queue.has_calls()) delete oldest;
}

}  // namespace verbatim::abi
