// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/expected.h"
#include "device/config.h"
#include "device/engine.h"
#include "device/event_pipe.h"
#include "device/gsi.h"
#include "device/host_peers.h"
#include "device/multicast_table.h"
#include "device/port_info.h"
#include "device/queue_pair_table.h"
#include "device/quota.h"
#include "device/region_homes.h"
#include "device/segment_layout.h"
#include "device/waiting_room.h"
#include "direct/half.h"
#include "direct/target.h"
#include "host/membarrier.h"
#include "host/quarantine.h"
#include "host/queue_lock.h"
#include "host/segment.h"
#include "host/slot.h"
#include "link/link.h"
#include "memory/key_registry.h"
#include "transport/path.h"
#include "udp/backpressure.h"
#include "udp/shared_port.h"
#include "udp/udp_link.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace verbatim::transport {
struct Arrival;
}

namespace verbatim::device {

class QueuePair;

/// One adapter in one process: what all contexts that a program opens on a device share. The
/// sockets, the numbers of queue pairs and keys, the memory that peers may see, and the progress of
/// it all.
///
/// One lock guards everything inside. Whoever posts or polls takes it and makes progress; the
/// engine thread takes it for what nobody else is there to do.
class Adapter {
 public:
  using Lock = host::AdapterLock;

  explicit Adapter(const PortInfo& port);
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;
  ~Adapter();
  /// On failure `message` says why and what to do about it.
  [[nodiscard]] Status open(std::string& message);

  [[nodiscard]] Lock& mutex() noexcept { return mutex_; }
  /// As it is now: it changes while the device is open.
  [[nodiscard]] PortInfo port() const {
    const std::lock_guard lock(port_mutex_);
    return port_;
  }
  [[nodiscard]] host::Segment& segment() noexcept { return segment_; }
  [[nodiscard]] SegmentLayout& layout() noexcept { return layout_; }
  [[nodiscard]] link::SharedPort& shared_port() noexcept { return shared_port_; }
  /// With the lock held.
  [[nodiscard]] bool has_queue_pair(wire::QpNumber number) const noexcept {
    return queue_pairs_.find(number) != nullptr;
  }
  [[nodiscard]] HostPeers& host_peers() noexcept { return host_peers_; }
  /// Whether data may go directly from process to process.
  [[nodiscard]] bool goes_directly() const noexcept { return path_policy_ != PathPolicy::kPackets; }
  [[nodiscard]] PathPolicy path_policy() const noexcept { return path_policy_; }
  [[nodiscard]] bool is_own_address(const wire::Gid& gid) const noexcept;

  /// The interfaces are these now. Who uses the adapter is told what that means to it. Without any
  /// lock, by one thread at a time; waits for other processes where an address has come.
  void handle_interfaces(const std::vector<Interface>& interfaces);
  /// The program has closed the adapter's descriptors: the device has failed. Without any lock.
  void handle_loss();

  // All of the following with the lock held.
  /// Where events that concern the device go; remove_events() before it goes.
  void add_events(EventPipe& events) { events_.push_back(&events); }
  void remove_events(EventPipe& events) noexcept { std::erase(events_, &events); }
  /// Its interface is gone: nothing works any more.
  [[nodiscard]] bool is_removed() const noexcept { return removed_; }
  /// The same as port(), which the lock keeps as it is.
  [[nodiscard]] const PortInfo& port_held() const noexcept { return port_; }
  [[nodiscard]] memory::KeyRegistry& keys() noexcept { return *registry_; }
  [[nodiscard]] memory::DomainTable& domains() noexcept { return domains_; }
  [[nodiscard]] RegionHomes& homes() noexcept { return *homes_; }
  [[nodiscard]] Quotas& quotas() noexcept { return quotas_; }
  /// Without the lock: moves the memory that a change of a queue pair has left to be moved.
  void settle_memory() {
    if (homes_->has_moves() || homes_->has_strays()) homes_->settle(mutex_);
  }
  [[nodiscard]] Gsi& gsi() noexcept { return *gsi_; }

  /// Gives a queue pair a number. kNoMemory when none is left.
  [[nodiscard]] Expected<wire::QpNumber> add(QueuePair& qp);
  void remove(QueuePair& qp) noexcept;
  [[nodiscard]] QueuePairTable<QueuePair>& queue_pairs() noexcept { return queue_pairs_; }
  /// Ourselves, as other queue pairs of ours see us.
  [[nodiscard]] direct::Target::Own as_target() const noexcept;
  /// In place of Segment::give_back(): not before a peer that is stopped has left it alone.
  void give_back(std::span<std::byte> block) { quarantine_.give_back(block); }
  /// Access through a key has ended: returns when no peer is in the middle of one, or false when
  /// one is stopped there.
  bool wait_for_peers();
  /// And, for memory that peers reach by system calls: returns when every call has ended that was
  /// announced before. `lock` is let go meanwhile.
  void wait_for_calls(std::unique_lock<Lock>& lock, std::uint64_t address, std::uint64_t octets);
  /// A peer is stopped in this queue pair's receiving half, which is to end: whatever it does when
  /// it goes on, it does to nobody.
  void lock_out(QueuePair& qp);
  /// Its visit of that half was given up.
  void add_stray(const direct::Half& half, host::Quarantine::Stray stray);

  /// A datagram queue pair gets a copy of what is sent to a multicast group, or no longer.
  /// kInvalidArgument when that is none, or the queue pair not one of datagrams or not attached;
  /// kNoMemory when there are too many.
  [[nodiscard]] Status attach(QueuePair& qp, const wire::Gid& group);
  [[nodiscard]] Status detach(QueuePair& qp, const wire::Gid& group);
  [[nodiscard]] bool is_attached(const QueuePair& qp) const noexcept {
    return multicast_.has_member(qp);
  }

  /// What a packet to `destination` needs; kInvalidArgument when the address of `gid_index` cannot
  /// reach it.
  struct Destination {
    std::uint32_t gid_index = 0;
    wire::Gid gid{};
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    std::uint32_t flow_label = 0;
    std::uint16_t entropy = 0;  // spreads flows over source ports
  };
  [[nodiscard]] Expected<transport::Path> path_to(const Destination& to) const noexcept;

  /// Sends what a queue pair has to send, and tells everybody concerned what has changed about it.
  void serve(QueuePair& qp) noexcept;
  /// Takes what has arrived, runs timers that are due, sends. Returns whether anything arrived.
  bool progress() noexcept;
  /// A caller's progress, at the time that it returns: as above, and the engine learns that
  /// somebody is there. What is to be sent waits for one of the next two.
  Instant progress_for_caller() noexcept;
  /// Whoever got something from a call acts on it first; answers, acknowledgements above all, leave
  /// with the next request, in company, with the next call that finds nothing, or by the engine.
  void keep_for_company(Instant at) noexcept;
  /// After a call that found nothing, and before anything goes that peers may wait for an answer
  /// of.
  void send_what_is_owed() noexcept;
  /// Whether a call has left something to be sent.
  [[nodiscard]] bool owes_answers() const noexcept {
    return !ready_.empty() || link_->has_packets_to_send();
  }
  /// When the earliest timer is due.
  [[nodiscard]] Instant next_deadline() const noexcept;

  /// A queue pair uses packets, or no longer.
  void count_packet_users(int change) noexcept {
    packet_users_.fetch_add(static_cast<std::uint32_t>(change), std::memory_order_relaxed);
  }
  /// Somebody else may complete something here without our lock, from now on.
  void note_direct_use() noexcept {
    has_direct_use_.store(true, std::memory_order_relaxed);
    has_process_direct_use_.store(true, std::memory_order_relaxed);
  }
  /// What whoever arms something calls before it looks again: a fence in all who may have missed
  /// it.
  static void arming_barrier() noexcept {
    full_fence();  // whoever comes directly from now on sees what was armed
    if (has_process_direct_use_.load(std::memory_order_relaxed)) host::Membarrier::all_processes();
  }
  /// Whether a caller that found nothing should make progress. Any thread, without the lock.
  [[nodiscard]] bool has_packet_users() const noexcept {
    return packet_users_.load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] bool has_ready() const noexcept {
    return has_ready_.load(std::memory_order_relaxed);  // or somebody waits
  }

  /// In a forked child: gives up all that is shared with the parent. Nothing moves any more; what
  /// the child posts on what it inherited stays where it is.
  void abandon_in_child() noexcept;
  /// The same in a child whose thread may be in the middle of changing the adapter, and of
  /// allocating memory: what is shared is closed or made private, and nothing is freed. Its
  /// descriptors stay for OwnDescriptor::close_all_in_child().
  void forget_in_child() noexcept;

  [[nodiscard]] const AdapterCounters& counters() const noexcept {
    return layout_.adapter().counters;
  }
  [[nodiscard]] const link::Link& link() const noexcept { return *link_; }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_.number(); }
  [[nodiscard]] std::size_t receive_buffer_octets() const noexcept {
    return receive_buffer_octets_;
  }

 private:
  void take_addresses(PortChange& change);
  void apply(const PortChange& change, const std::vector<Interface>& interfaces);
  [[nodiscard]] Status fit_link(const LinkConfig& config, std::string& message);
  void wrap_link(std::unique_ptr<link::Link> wrapper);
  enum class Came : std::uint8_t { kByWire, kForwarded };
  /// What the packets of a train have in common.
  struct Origin {
    const wire::IcrcSeed& seed;
    Instant at;
    Came came;
    std::uint16_t identification;  // what the packet has, if the sender's kernel numbered it
  };
  void handle(const link::Incoming& incoming, Came came, Instant at) noexcept;
  [[nodiscard]] const wire::IcrcSeed& seed_of(const link::Incoming& incoming) noexcept;
  [[nodiscard]] std::size_t handle_run(const link::Incoming& incoming, std::size_t packet_octets,
                                       const Origin& origin) noexcept;
  void handle_packet(const link::Incoming& incoming, const Origin& origin) noexcept;
  void look_into_waiting_room(Instant at) noexcept;
  [[nodiscard]] transport::Arrival arrival_of(const link::Incoming& incoming,
                                              const wire::PacketView& packet) const noexcept;
  void deliver(QueuePair& qp, const link::Incoming& incoming, const wire::PacketView& packet,
               Instant at) noexcept;
  void deliver_to_group(const link::Incoming& incoming, const wire::PacketView& packet,
                        const Origin& origin) noexcept;
  void forward(std::uint32_t slot, const link::Incoming& incoming) noexcept;
  void take_forwarded(Instant at) noexcept;
  void run_timers(Instant at) noexcept;
  void transmit(QueuePair& qp, Instant at) noexcept;
  /// What an unreliable queue pair may send to one receiver before the next look at it.
  struct Allowance {
    link::Backpressure::Receiver receiver{};
    std::size_t octets = 0;  // as Backpressure charges
  };
  [[nodiscard]] bool may_send_next(QueuePair& qp, Allowance& allowance, Instant at) noexcept;
  void settle(QueuePair& qp) noexcept;
  void conclude(QueuePair& qp) noexcept;
  void arm_timer(QueuePair& qp) noexcept;
  void list_ready(QueuePair& qp) noexcept;
  [[nodiscard]] Status lay_out_segment(PathCause cause);
  [[nodiscard]] Status open_door(int epoll, int bell) noexcept;
  void take_bells() noexcept;
  void look_after_waiting() noexcept;
  void look_after_strays(Instant at);
  [[nodiscard]] std::vector<QueuePair*> await_visitors();
  void handle_news(const HostPeers::News& news) noexcept;
  void handle_saying(std::span<std::byte> saying, int connection);
  void serve_ready() noexcept;
  void flush_link(Instant at) noexcept;
  enum class Look : std::uint8_t { kEverywhere, kWhereItCameFromLast };
  bool advance(Look look, Instant at) noexcept;

  friend class Engine;
  friend class Gsi;

  Lock mutex_;
  mutable std::mutex port_mutex_;  // taken last; who changes the port has both
  PortInfo port_;
  std::vector<EventPipe*> events_;
  std::atomic<bool> removed_{false};
  host::Slot slot_;
  link::SharedPort shared_port_;
  link::Backpressure backpressure_{shared_port_};
  host::Segment segment_;
  SegmentLayout layout_;
  host::Quarantine quarantine_{segment_};
  std::vector<std::pair<direct::Visitor, Occupancy::Snapshot>> strays_;
  Instant next_look_ = Instant::never();               // at the strays
  link::UdpLink udp_;                                  // addresses and sockets
  std::vector<std::unique_ptr<link::Link>> wrappers_;  // around it: faults and capture, inner first
  link::Link* link_ = &udp_;                           // the outermost: what packets go through
  std::vector<memory::DomainTable::Entry> domain_entries_;
  memory::DomainTable domains_;
  std::vector<std::uint32_t> free_keys_;
  std::unique_ptr<memory::KeyRegistry> registry_;
  std::unique_ptr<RegionHomes> homes_;
  Quotas quotas_;
  QueuePairTable<QueuePair> queue_pairs_;
  MulticastTable multicast_;
  std::set<std::pair<Instant, QueuePair*>> timers_;
  std::vector<QueuePair*> ready_;    // have got packets, or have more to send than one turn allows
  std::vector<QueuePair*> waiting_;  // for a receive of a peer's; callers look whether it is there
  std::vector<QueuePair*> serving_;  // those of them whose turn it is
  std::vector<std::byte> forwarded_;
  std::array<std::byte, 40> network_header_{};
  HostPeers host_peers_;
  bool has_door_ = false;
  PathPolicy path_policy_ = PathPolicy::kAutomatic;
  bool has_peer_calls_ = true;  // memory is lent and borrowed
  std::size_t receive_buffer_octets_ = 0;
  std::unique_ptr<Gsi> gsi_;
  std::unique_ptr<Engine> engine_;
  WaitingRoom waiting_room_;
  Instant look_into_room_at_ = Instant::never();
  struct Flow {
    wire::Gid source{};
    wire::Gid destination{};
    std::uint16_t source_port = 0;
    friend bool operator==(const Flow&, const Flow&) = default;
  };
  Flow last_flow_;  // that a packet came from
  wire::IcrcSeed last_seed_ = wire::IcrcSeed::roce_v2({}, {}, 0);
  std::uint32_t calls_ = 0;  // that looked for packets
  std::atomic<bool> has_direct_use_{false};
  static inline std::atomic<bool> has_process_direct_use_{false};  // of any adapter
  std::atomic<std::uint32_t> packet_users_{0};                     // queue pairs
  Instant kept_since_ = Instant::never();  // the oldest answers that wait for company
  std::atomic<bool> has_ready_{false};     // there is somebody in ready_
  bool abandoned_ = false;                 // a child's copy of its parent's adapter
};

}  // namespace verbatim::device
