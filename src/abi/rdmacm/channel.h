// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>

#include "abi/verbs/handles.h"
#include "connect/event_queue.h"

namespace verbatim::abi {

/// The object behind a pointer to an rdma_event_channel.
struct CmChannel {
  rdma_event_channel channel{.fd = -1};
  std::array<std::byte, kSpareOctets> spare{};
  connect::EventQueue queue;

  [[nodiscard]] connect::Outcome open() noexcept {
    auto opened = queue.open();
    channel.fd = queue.descriptor();
    return opened;
  }
  /// Ends a channel. Programs destroy a channel, or the synchronous id that owns it, while one of
  /// their threads waits in it or is between two calls of rdma_get_cm_event, as in rping. For that
  /// thread the object of a retired channel stays until 64 more channels have been retired, and
  /// longer if the thread still waits in it.
  static void retire(CmChannel* channel) noexcept;
};

struct RetireChannel {
  void operator()(CmChannel* channel) const noexcept { CmChannel::retire(channel); }
};
using OwnedChannel = std::unique_ptr<CmChannel, RetireChannel>;

[[nodiscard]] inline CmChannel& handle_of(rdma_event_channel* channel) noexcept {
  return *reinterpret_cast<CmChannel*>(channel);
}

}  // namespace verbatim::abi
