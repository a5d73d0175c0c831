// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "device/host_peers.h"
#include "device/memory_work.h"
#include "device/peer_events.h"
#include "device/segment_layout.h"
#include "device/visitors.h"
#include "direct/target.h"
#include "host/own_descriptor.h"
#include "host/queue_lock.h"
#include "host/segment.h"
#include "host/slot.h"

namespace verbatim::device {

/// What an adapter does for the other processes of this host: it lets them attach, executes their
/// errands, and reports to PeerEvents which bells they ring, which errands they have executed, and
/// that one of them has ended.
class PeerService {
 public:
  /// The parts outlive this object.
  struct Parts {
    host::AdapterLock& lock;
    const host::Slot& slot;
    const host::Segment& segment;
    const SegmentLayout& layout;
    PeerEvents& events;
    Visitors& visitors;
    MemoryWork& memory_work;
  };
  explicit PeerService(const Parts& parts) noexcept : parts_(parts) {}
  PeerService(const PeerService&) = delete;
  PeerService& operator=(const PeerService&) = delete;

  /// Whether other processes are admitted as peers or only as viewers, and whether this process
  /// lends them its memory.
  struct Admission {
    bool admits_peers = true;
    bool has_peer_calls = true;
  };
  void admit(const Admission& admission) noexcept { admission_ = admission; }
  /// Lets other processes attach. serve() is to be called when `epoll` finds something. Peers ring
  /// `bell`, which outlives this.
  [[nodiscard]] Status open(int epoll, const host::OwnDescriptor& bell) noexcept;
  [[nodiscard]] HostPeers& peers() noexcept { return peers_; }
  /// This process, as the target of requests of its own queue pairs.
  [[nodiscard]] direct::Target::Own as_target() const noexcept;

  /// Answers processes that attach, reads the messages of peers, and looks which peers have died.
  /// By the engine's thread, without the lock.
  void serve();
  /// Reports the bells that have rung. With the adapter's lock held.
  void take_bells() noexcept VB_REQUIRES(adapter_role);

 private:
  void handle_message(std::span<const std::byte> message, int connection);

  Parts parts_;
  Admission admission_;
  const host::OwnDescriptor* bell_ = nullptr;  // until open(): none
  HostPeers peers_;
};

}  // namespace verbatim::device
