// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/adapter_role.h"
#include "device/adapter.h"
#include "device/block_pool.h"
#include "device/completion_queue.h"
#include "device/fault_guard.h"
#include "device/queue_pair_setup.h"
#include "device/receiving_half.h"
#include "device/shared_receive_queue.h"
#include "direct/requester.h"
#include "direct/short_way.h"
#include "host/queue_lock.h"
#include "loop/agenda.h"
#include "loop/late_receive.h"
#include "loop/waiting_room.h"
#include "transport/queue_pair_machine.h"
#include "wire/cm/cm_ids.h"

namespace verbatim::device {

/// A queue pair of a context: the machine of the layer `transport`, the blocks that the machine
/// works on, the requester of the direct path, and its place in the adapter.
class QueuePair : public Pooled<QueuePair> {
 public:
  using Setup = QueuePairSetup;

  /// kInvalidArgument for limits out of range, kNoMemory when something runs out.
  [[nodiscard]] static Expected<std::unique_ptr<QueuePair>> create(std::shared_ptr<Adapter> adapter,
                                                                   const Setup& setup);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  [[nodiscard]] wire::QpNumber number() const noexcept { return number_; }
  [[nodiscard]] const Setup& setup() const noexcept { return setup_; }
  [[nodiscard]] bool is_datagram() const noexcept { return setup_.type == transport::QpType::kUd; }
  [[nodiscard]] Adapter& adapter() noexcept { return *adapter_; }

  /// `to` is read when the mask names the address.
  [[nodiscard]] Status modify(transport::QpMask mask, const transport::QpAttributes& attributes,
                              const Adapter::Destination* to) noexcept;
  struct Present {
    transport::QpAttributes attributes{};
    bool is_draining = false;  // state SQD, and requests that had begun are not finished
  };
  [[nodiscard]] Present query() noexcept;

  /// How the requests of a posting were sent, if there were any.
  enum class Sends : std::uint8_t { kNone, kAtOnce, kQueued };

  /// A call that posts requests. It takes a lock, queues the requests, and at its end sends them
  /// and releases the lock. The lock is the queue pair's own if its requests are executed directly,
  /// and, for receives, as soon as the peer may execute its requests directly. Otherwise it is the
  /// adapter's.
  class Posting {
   public:
    enum class Of : std::uint8_t { kSends, kReceives };
    Posting(QueuePair& qp, Of what) noexcept
        : qp_(qp),
          is_direct_(qp.lock_for_posting(what == Of::kSends ? qp.is_direct_ : qp.is_near_)) {}
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;
    ~Posting() { is_direct_ ? qp_.end_direct_posting(sends_) : qp_.end_packet_posting(sends_); }
    /// Executes the first requests, as many as need no queue, and removes them from `requests`
    /// (direct::Requester::run_short()). The caller gives the others to send().
    template <typename Requests>
    void send_short(Requests& requests) noexcept {
      if (!is_direct_ || qp_.machine_->state() != transport::QpState::kReadyToSend) return;
      sends_ = Sends::kAtOnce;
      qp_.direct_->run_short(requests);
    }
    [[nodiscard]] Status send(const transport::SendRequest& request) noexcept;
    [[nodiscard]] Status receive(const transport::ReceiveRequest& request) noexcept {
      auto posted = qp_.machine_->post_receive(request);
      direct::Half& half = qp_.receiving_.half();
      if (posted && half.exists() && half.take_waiting()) [[unlikely]]
        qp_.wake_peer();
      return posted;
    }
    [[nodiscard]] bool has_room_for(std::uint32_t requests) const noexcept {
      return qp_.machine_->sender().has_room_for(requests);
    }

   private:
    QueuePair& qp_;
    const bool is_direct_;  // holds the queue pair's lock; else the adapter's
    Sends sends_ = Sends::kNone;
  };

  // For the adapter, with its lock held.
  /// Excludes threads that post, as long as the result exists. The functions below need it. A
  /// thread does not call it twice.
  [[nodiscard]] std::unique_lock<host::QueueLock> hold() noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] transport::QueuePairMachine& machine() noexcept { return *machine_; }
  void handle_packet(Instant at, const transport::Arrival& arrival) noexcept {
    machine_->handle_packet(at, arrival);
  }
  /// Executes the posted requests, if they take the direct path. False when there is more to do at
  /// once.
  [[nodiscard]] bool run_directly() noexcept VB_REQUIRES(adapter_role);
  /// The port has this table of partition keys now.
  void use_pkeys(std::span<const wire::PKey> pkeys) noexcept VB_REQUIRES(adapter_role);
  /// The device has been removed.
  void enter_error() noexcept VB_REQUIRES(adapter_role);
  /// In a forked child: the threads that may have held the locks of the queue pair and of its
  /// queues do not exist here. Posted requests stay where they are.
  void abandon_in_child() noexcept VB_REQUIRES(adapter_role);
  /// See Adapter::forget_in_child().
  void forget_in_child() noexcept;
  /// A peer has done something in the receiving half that the owner must finish.
  void handle_bell() noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] bool takes_packets() noexcept { return receiving_.takes_packets(); }
  /// Null when all requests are sent in packets.
  [[nodiscard]] direct::Requester* requester() noexcept { return direct_ ? &*direct_ : nullptr; }
  [[nodiscard]] Instant next_timeout() const noexcept;
  /// Whether a request waits for the peer to post a receive, and whether the peer has posted one.
  [[nodiscard]] bool waits_for_receive() const noexcept {
    return data_path_ == DataPath::kDirect && direct_->waits_for_receive();
  }
  [[nodiscard]] bool finds_receive() noexcept { return direct_->target().has_receive(); }
  /// Whether the packet should wait for a receive that the program may be about to post.
  [[nodiscard]] bool lets_wait(const transport::Arrival& arrival, Instant at) noexcept
      VB_REQUIRES(adapter_role) {
    return late_.lets_wait(*machine_, arrival, at);
  }
  /// The packets that wait: Dispatch counts them here.
  [[nodiscard]] loop::WaitingPackets& waiting_packets() noexcept VB_REQUIRES(adapter_role) {
    return waiting_packets_;
  }
  [[nodiscard]] loop::AgendaEntry& agenda_entry() noexcept VB_REQUIRES(adapter_role) {
    return agenda_entry_;
  }
  /// The communication that the peer's first packet establishes, in case the message that the peer
  /// is ready was lost. Zero: none.
  [[nodiscard]] wire::CommId awaited() const noexcept VB_REQUIRES(adapter_role) { return awaited_; }
  void set_awaited(wire::CommId communication) noexcept VB_REQUIRES(adapter_role) {
    awaited_ = communication;
  }
  /// Publishes its state and its counters for viewers.
  void show() noexcept VB_REQUIRES(adapter_role);
  /// Reports events, and wakes programs that wait for completions or for the limit of a shared
  /// receive queue.
  void announce() noexcept VB_REQUIRES(adapter_role);
  /// Whether a program waits for completions, so that announce() comes before packets are sent.
  [[nodiscard]] bool is_waited_for() const noexcept {
    return setup_.send_cq->is_waited_for() || setup_.receive_cq->is_waited_for();
  }

 private:
  using DataPath = direct::DataPath;

  QueuePair(std::shared_ptr<Adapter> adapter, const Setup& setup) noexcept
      : adapter_(std::move(adapter)),
        send_cq_(setup.send_cq),
        setup_(setup),
        receiving_(*adapter_, setup_) {}
  [[nodiscard]] Status build() VB_REQUIRES(adapter_role);
  struct NearEnd {
    bool is_near = false;                // on this host
    std::shared_ptr<host::Peer> peer{};  // none: this very process
  };
  [[nodiscard]] NearEnd find_near_end(transport::QpMask mask,
                                      const transport::QpAttributes& attributes,
                                      const Adapter::Destination* to);
  void share_memory();
  void follow(transport::QpState from, const NearEnd& near_end) VB_REQUIRES(adapter_role);
  void catch_up() noexcept VB_REQUIRES(adapter_role);
  void wake_peer() noexcept;
  void fail_sends() noexcept VB_REQUIRES(adapter_role);
  void start_directly(bool afresh) noexcept VB_REQUIRES(adapter_role);
  void set_data_path(DataPath data_path) noexcept VB_REQUIRES(adapter_role);
  /// What peers read about the sending side of this queue pair.
  [[nodiscard]] direct::Visiting& visiting() noexcept {
    return adapter_->layout().half(number_).visiting;
  }
  void recount() noexcept VB_REQUIRES(adapter_role);
  /// Takes the queue pair's own lock and returns true while `alone` is set; otherwise takes the
  /// adapter's and returns false.
  [[nodiscard]] bool lock_for_posting(const std::atomic<bool>& alone) noexcept {
    let_faults_through_for_posting();
    if (alone.load(std::memory_order_relaxed)) [[likely]] {
      lock_.lock();
      if (alone.load(std::memory_order_relaxed)) [[likely]]
        return true;
      lock_.unlock();
    }
    return lock_for_any_posting(alone);
  }
  [[nodiscard]] bool lock_for_any_posting(const std::atomic<bool>& alone) noexcept;
  /// What is left to do with the adapter's lock.
  enum class Rest : std::uint8_t { kNothing, kAnnounce, kServe };
  /// The end of a posting. It releases the lock of the posting.
  void end_direct_posting(Sends sends) noexcept {
    Rest rest = Rest::kServe;
    if (sends == Sends::kAtOnce) {  // the queue is as empty as it was
      if (!direct_->has_failed()) [[likely]]
        rest = rest_of_completions();
    } else if (sends == Sends::kQueued) {
      rest = execute_queue();
    } else if (machine_->state() != transport::QpState::kError) {
      rest = Rest::kNothing;
    }
    lock_.unlock();
    if (rest != Rest::kNothing) [[unlikely]]
      finish(rest);
  }
  void end_packet_posting(Sends sends) noexcept;
  void finish(Rest rest) noexcept;
  [[nodiscard]] Rest execute_queue() noexcept;
  [[nodiscard]] Rest rest_of_completions() noexcept {
    return send_cq_->has_event() || looks_for_overrun() ? Rest::kAnnounce : Rest::kNothing;
  }
  /// Completions that overrun a completion queue wait in its lanes, so the overrun may be noticed
  /// late. But the lane of this queue pair alone may hold too many, and no other thread may come to
  /// notice that.
  [[nodiscard]] bool looks_for_overrun() noexcept {
    constexpr std::uint32_t kPostingsPerLook = 128;
    const CompletionQueue& cq = *send_cq_;
    return cq.may_overrun() &&
           (++postings_ % kPostingsPerLook == 0 || send_port_->has_more_than(cq.lane_limit()));
  }
  void bar_half(ReceivingHalf::Then then) noexcept VB_REQUIRES(adapter_role);
  void reopen_half() noexcept VB_REQUIRES(adapter_role);
  void discard_completions() noexcept VB_REQUIRES(adapter_role);

  // The members that every posting needs come first, close together: many queue pairs share a
  // cache.
  std::shared_ptr<Adapter> adapter_;
  CompletionQueue* send_cq_ = nullptr;  // as in the setup
  std::atomic<bool> is_direct_{false};  // requests go directly; changes with both locks held
  std::atomic<bool> is_near_{false};    // requests go directly, or may later; likewise
  std::uint32_t postings_ = 0;          // counts those that looked for an overrun
  host::QueueLock lock_;  // guards the machine while is_direct_, receives while is_near_
  std::optional<direct::Requester> direct_;  // none: packets
  std::optional<transport::QueuePairMachine> machine_;

  Setup setup_;
  wire::QpNumber number_{};
  wire::QpNumber dest_qp_
      VB_GUARDED_BY(adapter_role){};  // as the machine has it: show() is called with every turn
  ReceivingHalf receiving_;
  std::span<std::byte> send_lane_;             // the completions of sends, in the segment
  std::unique_ptr<std::byte[]> send_block_;    // private
  std::unique_ptr<std::byte[]> replay_block_;  // private; READs and atomics that were executed
  std::optional<transport::CompletionPort> send_port_;
  bool in_domain_ VB_GUARDED_BY(adapter_role) = false;
  bool numbered_ VB_GUARDED_BY(adapter_role) = false;
  DataPath data_path_ = DataPath::kPackets;
  struct {
    bool uses_packets = false;
    bool sends_directly = false;
    bool receives_directly = false;
  } counts_ VB_GUARDED_BY(adapter_role);  // what it was last counted as
  loop::LateReceive late_ VB_GUARDED_BY(adapter_role);
  loop::WaitingPackets waiting_packets_ VB_GUARDED_BY(adapter_role);
  loop::AgendaEntry agenda_entry_ VB_GUARDED_BY(adapter_role);
  wire::CommId awaited_ VB_GUARDED_BY(adapter_role){};
};

}  // namespace verbatim::device
