// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/adapter_role.h"
#include "direct/errand.h"

namespace verbatim::device {

/// What other processes of this host have done to the queue pairs of an adapter, as PeerService
/// reports it. All functions are called with the adapter's lock held.
class PeerEvents {
 public:
  PeerEvents() noexcept = default;
  PeerEvents(const PeerEvents&) = delete;
  PeerEvents& operator=(const PeerEvents&) = delete;

  /// The bell of the queue pair at this place has rung. There may be no queue pair any more.
  virtual void handle_bell(std::uint32_t place) VB_REQUIRES(adapter_role) = 0;
  /// The owner of the peer's memory has executed an errand. `octets` follow the reply.
  virtual void handle_reply(const direct::Errand& reply, std::span<const std::byte> octets)
      VB_REQUIRES(adapter_role) = 0;
  /// A process that this one has attached to has ended.
  virtual void handle_deaths() VB_REQUIRES(adapter_role) = 0;

 protected:
  ~PeerEvents() = default;
};

}  // namespace verbatim::device
