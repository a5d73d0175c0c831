// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "base/mutex.h"
#include "device/adapter_work.h"
#include "device/config.h"
#include "device/engine.h"
#include "device/event_pipe.h"
#include "device/management_port.h"
#include "device/memory_work.h"
#include "device/multicast_groups.h"
#include "device/network.h"
#include "device/peer_service.h"
#include "device/poller_rest.h"
#include "device/port_info.h"
#include "device/queue_pair_peer_events.h"
#include "device/quota.h"
#include "device/region_homes.h"
#include "device/segment_layout.h"
#include "device/surroundings.h"
#include "device/visitors.h"
#include "host/adapter_guard.h"
#include "host/queue_lock.h"
#include "host/segment.h"
#include "host/slot.h"
#include "link/link.h"
#include "loop/queue_pair_table.h"
#include "memory/key_registry.h"
#include "transport/path.h"

namespace verbatim::device {

/// One adapter in one process, shared by all contexts that a program opens on a device. It owns the
/// parts, opens and closes them in the right order, and follows the changes of its port. The parts
/// are described at their classes (docs/decisions/0028).
///
/// One lock guards the parts, unless a part says otherwise. A thread that posts or polls takes it
/// and makes progress. The engine's thread takes it for work that no other thread does.
class Adapter {
 public:
  using Lock = host::AdapterLock;

  /// See open_adapter().
  Adapter(const PortInfo& port, ManagementPort::Maker make_management);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  ~Adapter();
  /// On failure `message` says why and what to do about it.
  [[nodiscard]] Status open(std::string& message);

  [[nodiscard]] Lock& mutex() noexcept { return mutex_; }
  /// The present port: it changes while the device is open.
  [[nodiscard]] PortInfo port() const {
    const LockGuard lock(port_mutex_);
    return port_;
  }
  /// The bits of a LID that tell the LIDs of the port apart.
  [[nodiscard]] std::uint8_t path_mask() const noexcept {
    return path_mask_.load(std::memory_order_relaxed);
  }
  /// Its interface was removed: nothing works any more.
  [[nodiscard]] bool is_removed() const noexcept { return removed_; }
  /// Which data path queue pairs of this host use to each other.
  [[nodiscard]] DataPathPolicy path_policy() const noexcept { return path_policy_; }
  /// Whether threads that poll in vain let other threads have the processor.
  [[nodiscard]] bool gives_way() const noexcept { return gives_way_; }
  [[nodiscard]] std::size_t receive_buffer_octets() const noexcept {
    return receive_buffer_octets_;
  }

  /// Adapts the port to the present interfaces of the host. Called without any lock, by one thread
  /// at a time. Waits for other processes if the port has a new address.
  void handle_interfaces(const std::vector<Interface>& interfaces);

  // ---- The parts ----

  [[nodiscard]] const host::Slot& slot() const noexcept { return slot_; }
  [[nodiscard]] link::Link& link() noexcept { return *link_; }
  [[nodiscard]] host::Segment& segment() noexcept { return segment_; }
  [[nodiscard]] const SegmentLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] loop::QueuePairTable<QueuePair>& queue_pairs() noexcept { return queue_pairs_; }
  [[nodiscard]] MulticastGroups& groups() noexcept { return groups_; }
  [[nodiscard]] memory::KeyRegistry& keys() noexcept { return *registry_; }
  [[nodiscard]] memory::DomainTable& domains() noexcept { return domains_; }
  [[nodiscard]] RegionHomes& homes() noexcept { return *homes_; }
  [[nodiscard]] Quotas& quotas() noexcept { return quotas_; }
  [[nodiscard]] Visitors& visitors() noexcept { return visitors_; }
  [[nodiscard]] PeerService& peers() noexcept { return peers_; }
  [[nodiscard]] ManagementPort& management() noexcept { return *management_; }
  /// See Engine.
  void note_spinners(Instant at) noexcept { engine_.note_spinners(at); }
  void note_rest(Instant at) noexcept { engine_.note_rest(at); }
  [[nodiscard]] PollerRest& rest() noexcept { return rest_; }
  [[nodiscard]] AdapterProgress& work() noexcept { return progress_; }

  /// Where events that concern the device go; remove_events() before the pipe is destroyed.
  void add_events(EventPipe& events) {
    const host::AdapterGuard lock(mutex_);
    events_.push_back(&events);
  }
  void remove_events(EventPipe& events) noexcept {
    const host::AdapterGuard lock(mutex_);
    std::erase(events_, &events);
  }

  // ---- With the lock held ----

  /// See Network.
  using Destination = device::Destination;
  [[nodiscard]] Expected<transport::Path> path_to(const Destination& to) const noexcept
      VB_REQUIRES(adapter_role) {
    return network_->path_to(port_, to);
  }

  // ---- Around a fork ----

  /// The locks that a fork takes, of all adapters: first every `hearing`, then every `sockets`,
  /// then every `adapter`.
  struct ForkLocks {
    Mutex& hearing;
    Mutex& sockets;
    Lock& adapter;
  };
  [[nodiscard]] ForkLocks fork_locks() noexcept {
    return {
        .hearing = peers_.peers().serving(), .sockets = network_->fork_mutex(), .adapter = mutex_};
  }
  /// In a forked child: gives up all that is shared with the parent. Requests that the child posts
  /// on inherited queue pairs stay in their queues.
  void abandon_in_child() noexcept VB_REQUIRES(adapter_role);
  /// The same in a child whose thread may be in the middle of changing the adapter, or of
  /// allocating memory: it makes the segment private and frees nothing.
  /// OwnDescriptor::close_all_in_child() closes the descriptors.
  void forget_in_child() noexcept VB_REQUIRES(adapter_role);

 private:
  [[nodiscard]] Status open_segment(const LinkConfig& config, std::string& message);
  [[nodiscard]] Status fit_link(const LinkConfig& config, std::string& message);
  void wrap_link(std::unique_ptr<link::Link> wrapper);
  void handle_loss();
  void handle_notice();
  void take_addresses(PortChange& change);
  void apply(const PortChange& change, const PortInfo& now) VB_REQUIRES(adapter_role);
  void note_path_mask() noexcept;

  Lock mutex_;
  mutable Mutex port_mutex_;  // taken last; a change of the port needs both
  PortInfo port_;
  std::vector<EventPipe*> events_ VB_GUARDED_BY(adapter_role);
  std::atomic<bool> removed_{false};
  std::atomic<std::uint8_t> path_mask_{0};
  DataPathPolicy path_policy_ = DataPathPolicy::kAutomatic;
  bool gives_way_ = true;
  std::size_t receive_buffer_octets_ = 0;
  bool abandoned_ = false;  // a child's copy of its parent's adapter

  host::Slot slot_;
  std::unique_ptr<Network> network_;                   // never null
  std::vector<std::unique_ptr<link::Link>> wrappers_;  // of its link: faults, capture; inner first
  link::Link* link_ = nullptr;                         // the outermost: what packets go through

  host::Segment segment_;
  SegmentLayout layout_;
  loop::QueuePairTable<QueuePair> queue_pairs_;
  std::vector<memory::DomainTable::Entry> domain_entries_;
  memory::DomainTable domains_;
  std::vector<std::uint32_t> free_keys_;
  std::unique_ptr<memory::KeyRegistry> registry_;
  std::unique_ptr<RegionHomes> homes_;
  Quotas quotas_;

  MulticastGroups groups_;
  Visitors visitors_;
  MemoryWork memory_work_;
  std::unique_ptr<ManagementPort> management_;  // until the destructor: never null
  Surroundings surroundings_;
  loop::Agenda<QueuePair> agenda_;
  AdapterDispatch dispatch_;
  AdapterProgress progress_;
  QueuePairPeerEvents peer_events_;
  PeerService peers_;
  SocketWatch sockets_;
  PollerRest rest_{sockets_};
  Engine engine_;
};

}  // namespace verbatim::device
