// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/expected.h"
#include "device/adapter_types.h"
#include "device/host_peers.h"
#include "device/segment_layout.h"
#include "device/visitors.h"
#include "direct/target.h"
#include "host/queue_lock.h"
#include "host/segment.h"
#include "host/slot.h"
#include "loop/queue_pair_table.h"

namespace verbatim::device {

class Engine;

/// What an adapter does for the other processes of this host: it lets them attach, executes what
/// they ask for (errands), sees to the queue pairs whose bells they ring, and notices their deaths.
class PeerService {
 public:
  /// All of them outlive this.
  struct Parts {
    host::AdapterLock& lock;
    const host::Slot& slot;
    const host::Segment& segment;
    const SegmentLayout& layout;
    const loop::QueuePairTable<QueuePair>& queue_pairs;
    AdapterProgress& progress;
    Visitors& visitors;
    const Engine& engine;
  };
  explicit PeerService(const Parts& parts) noexcept : parts_(parts) {}
  PeerService(const PeerService&) = delete;
  PeerService& operator=(const PeerService&) = delete;

  /// Whether other processes are let in, or may look only; and whether memory is lent to them.
  struct Admission {
    bool admits_peers = true;
    bool has_peer_calls = true;
  };
  void admit(const Admission& admission) noexcept { admission_ = admission; }
  /// Lets others attach. `epoll` is told of everything that serve() is to be called for.
  [[nodiscard]] Status open(int epoll) noexcept;
  [[nodiscard]] HostPeers& peers() noexcept { return peers_; }
  /// This process, as other queue pairs of it see it.
  [[nodiscard]] direct::Target::Own as_target() const noexcept;

  /// Answers the processes that attach, hears what they say, and looks which have died. By the
  /// engine's thread, without the lock.
  void serve();
  /// Sees to the queue pairs whose bells have rung. With the adapter's lock held.
  void take_bells() noexcept;

 private:
  void handle_saying(std::span<std::byte> saying, int connection);

  Parts parts_;
  Admission admission_;
  HostPeers peers_;
};

}  // namespace verbatim::device
