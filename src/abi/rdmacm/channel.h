// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>

#include "abi/verbs/handles.h"
#include "connect/event_queue.h"

namespace verbatim::abi {

/// What a pointer to an rdma_event_channel really points to.
struct CmChannel {
  rdma_event_channel channel{.fd = -1};
  std::array<std::byte, kSpareOctets> spare{};
  connect::EventQueue queue;

  [[nodiscard]] connect::Outcome open() noexcept {
    auto opened = queue.open();
    channel.fd = queue.descriptor();
    return opened;
  }
  /// How every channel ends. Programs destroy a channel while one of their threads waits in it, or
  /// is between two calls of rdma_get_cm_event, as in rping; so do programs that destroy a
  /// synchronous listener to end the thread that waits for its requests. For that thread the object
  /// of a retired channel stays until 64 more channels have been retired, and longer if the thread
  /// still waits in it.
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
