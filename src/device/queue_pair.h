// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/adapter.h"
#include "device/agenda.h"
#include "device/block_pool.h"
#include "device/completion_queue.h"
#include "device/fault_guard.h"
#include "device/late_receive.h"
#include "device/shared_receive_queue.h"
#include "direct/half.h"
#include "direct/requester.h"
#include "direct/short_way.h"
#include "host/queue_lock.h"
#include "transport/queue_pair_machine.h"
#include "wire/cm/cm_ids.h"

namespace verbatim::device {

/// A queue pair of a context: the pure machine, the blocks it works on, and its place in the
/// adapter.
class QueuePair : public Pooled<QueuePair> {
 public:
  struct Setup {
    transport::QpType type = transport::QpType::kRc;
    memory::DomainId domain = memory::DomainId::kNone;
    std::uint32_t send_depth = 0;
    std::uint32_t receive_depth = 0;
    std::uint32_t send_sges = 0;
    std::uint32_t receive_sges = 0;
    std::uint32_t inline_octets = 0;
    bool signal_all = false;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* receive_cq = nullptr;
    SharedReceiveQueue* shared = nullptr;
    EventPipe* async = nullptr;
    std::uint64_t user_tag = 0;  // subject of its events
  };

  /// kInvalidArgument for limits out of range, kNoMemory when something runs out.
  [[nodiscard]] static Expected<std::unique_ptr<QueuePair>> create(std::shared_ptr<Adapter> adapter,
                                                                   const Setup& setup);
  QueuePair(std::shared_ptr<Adapter> adapter, const Setup& setup) noexcept
      : adapter_(std::move(adapter)), send_cq_(setup.send_cq), setup_(setup) {}
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
  [[nodiscard]] transport::QpAttributes attributes() noexcept;
  [[nodiscard]] bool is_draining() noexcept;

  using DataPath = direct::DataPath;
  [[nodiscard]] DataPath data_path() const noexcept { return data_path_; }

  /// How the requests of a posting were sent, if there were any.
  enum class Sends : std::uint8_t { kNone, kAtOnce, kQueued };

  /// Posting in pieces: takes a lock, queues, and at its end sends and lets go. A queue pair whose
  /// requests are executed directly has a lock of its own, and nothing else is touched; its
  /// receives need no more from the moment on that the peer may come directly.
  class Posting {
   public:
    enum class Of : std::uint8_t { kSends, kReceives };
    Posting(QueuePair& qp, Of what) noexcept
        : qp_(qp),
          is_direct_(qp.lock_for_posting(what == Of::kSends ? qp.is_direct_ : qp.is_near_)) {}
    Posting(const Posting&) = delete;
    Posting& operator=(const Posting&) = delete;
    ~Posting() { is_direct_ ? qp_.end_direct_posting(sends_) : qp_.end_packet_posting(sends_); }
    /// Executes as many of the requests as need no queue, and takes them off: for more, see
    /// direct::Requester::run_short(). The others: send().
    template <typename Requests>
    void send_short(Requests& requests) noexcept {
      if (!is_direct_ || qp_.machine_->state() != transport::QpState::kReadyToSend) return;
      sends_ = Sends::kAtOnce;
      qp_.direct_->run_short(requests);
    }
    [[nodiscard]] Status send(const transport::SendRequest& request) noexcept;
    [[nodiscard]] Status receive(const transport::ReceiveRequest& request) noexcept {
      auto posted = qp_.machine_->post_receive(request);
      if (posted && qp_.half_.exists() && qp_.half_.take_waiting()) [[unlikely]]
        qp_.wake_peer();
      return posted;
    }
    [[nodiscard]] bool has_room_for(std::uint32_t requests) const noexcept {
      return qp_.machine_->has_room_for(requests);
    }

   private:
    QueuePair& qp_;
    const bool is_direct_;  // holds the queue pair's lock; else the adapter's
    Sends sends_ = Sends::kNone;
  };

  // For the adapter, with its lock held.
  /// Keeps posting threads away, for as long as the result lives: before anything that follows. Not
  /// twice.
  [[nodiscard]] std::unique_lock<host::QueueLock> hold() noexcept;
  [[nodiscard]] transport::QueuePairMachine& machine() noexcept { return *machine_; }
  /// Executes what is posted, if it goes directly. False when there is more to do at once.
  [[nodiscard]] bool run_directly() noexcept;
  /// The device is gone.
  void enter_error() noexcept;
  /// After a fork: the threads that may have had the locks of it and of its queues are not here,
  /// and what is posted stays where it is.
  void abandon_in_child() noexcept;
  /// The same as Adapter::forget_in_child() says.
  void forget_in_child() noexcept;
  /// A peer has done something in our receiving half that we must see to.
  void handle_bell() noexcept;
  /// The owner of the peer's memory has executed a part of a request for us.
  void handle_reply(const direct::Errand& reply, std::span<const std::byte> octets);
  /// Whether requests come in packets. A packet for a queue pair whose peer goes directly, or has
  /// not sent a request yet, is not the peer's.
  [[nodiscard]] bool takes_packets() noexcept { return !half_.exists() || half_.admits_packets(); }
  [[nodiscard]] direct::Half& half() noexcept { return half_; }
  /// How long a peer that is in our receiving half is waited for. Who is longer there is stopped.
  static constexpr Duration kLeavingPatience = std::chrono::milliseconds(100);
  /// The present visit of our receiving half was given up: what it touches goes into quarantine.
  void note_stray();
  /// The visitor keeps the parts of the receiving half that it has, and we go on with others.
  void leave_requester_behind();
  /// Those of the memory that peers reach through this queue pair.
  [[nodiscard]] RegionHomes::Domains domains() const;
  [[nodiscard]] Instant next_timeout() const noexcept;
  /// Whether a request waits for a receive of the peer's, and whether there is one now.
  [[nodiscard]] bool waits_for_receive() const noexcept {
    return data_path_ == DataPath::kDirect && direct_->waits_for_receive();
  }
  [[nodiscard]] bool finds_receive() noexcept { return direct_->target().has_receive(); }
  /// Whether the packet should wait for a receive that the program may be about to post.
  [[nodiscard]] bool lets_wait(const transport::Arrival& arrival, Instant at) noexcept {
    return machine_->lacks_receive_for(arrival.packet) && machine_->is_addressed_by(arrival) &&
           late_.is_worth_waiting_for(machine_->receives_posted(), at);
  }
  /// Packets of its own that do so: Dispatch counts them here.
  [[nodiscard]] int& waiting_packets() noexcept { return waiting_packets_; }
  [[nodiscard]] AgendaEntry& agenda_entry() noexcept { return agenda_entry_; }
  /// The communication that the peer's first packet establishes, if its word that it is ready got
  /// lost; zero: none.
  [[nodiscard]] wire::CommId awaited() const noexcept { return awaited_; }
  void set_awaited(wire::CommId communication) noexcept { awaited_ = communication; }
  /// Tells viewers what it has come to.
  void show() noexcept;
  /// Events, completion channels, limits: whoever waits for something is told.
  void announce() noexcept;
  /// Whether that is worth the while before packets are sent. What is rare can wait so long.
  [[nodiscard]] bool is_waited_for() const noexcept {
    return setup_.send_cq->is_waited_for() || setup_.receive_cq->is_waited_for();
  }

 private:
  [[nodiscard]] Status build();
  [[nodiscard]] direct::Half::Parts half_parts() const noexcept;
  /// A shared receive that a stray has, if it was locked out.
  struct LeftBehind {
    transport::SharedReceiveRing shared;
    std::uint32_t claimant = 0;  // 0: it was not locked out
    std::optional<std::uint32_t> slot{};
    std::uint64_t wr_id = 0;
    std::vector<memory::Sge> list{};

    void remember(const transport::SharedReceiveRing& queue, std::uint32_t who,
                  const transport::ResponderState& state);
    void put_back();
  };
  struct NearEnd {
    bool is_near = false;                // on this host
    std::shared_ptr<host::Peer> peer{};  // none: this very process
  };
  [[nodiscard]] NearEnd find_near_end(transport::QpMask mask,
                                      const transport::QpAttributes& attributes,
                                      const Adapter::Destination* to);
  void follow(transport::QpState from, const NearEnd& near_end);
  void catch_up() noexcept;
  [[nodiscard]] bool half_has_failed() const noexcept {
    const transport::ResponderState& state = machine_->responder_state();
    return machine_->takes_requests() &&
           (transport::is_failing(state) || transport::has_failed(state));
  }
  void wake_peer() noexcept;
  void fail_sends() noexcept;
  void start_directly(bool afresh) noexcept;
  void set_data_path(DataPath data_path) noexcept;
  /// What we tell peers of our sending half.
  [[nodiscard]] direct::Visiting& visiting() noexcept {
    return adapter_->layout().half(number_).visiting;
  }
  void recount() noexcept;
  /// True with the queue pair's own lock held, which is enough when `alone` says so; false with the
  /// adapter's.
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
  /// What is left for somebody with the adapter's lock.
  enum class Rest : std::uint8_t { kNothing, kAnnounce, kServe };
  /// The end of a posting, which lets its lock go.
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
  /// What overruns a completion queue waits in its lanes, so it may be noticed late; but ours alone
  /// may be too many, and then nobody may come to notice.
  [[nodiscard]] bool looks_for_overrun() noexcept {
    constexpr std::uint32_t kPostingsPerLook = 128;
    const CompletionQueue& cq = *send_cq_;
    return cq.may_overrun() &&
           (++postings_ % kPostingsPerLook == 0 || send_port_->has_more_than(cq.lane_limit()));
  }
  /// What becomes of the receiving half while it is barred.
  enum class HalfThen : std::uint8_t { kGoesOn, kEnds };
  void bar_half(HalfThen then) noexcept;
  [[nodiscard]] bool disturbs_half(transport::QpMask mask,
                                   const transport::QpAttributes& attributes) const noexcept;
  void reopen_half() noexcept;
  void discard_completions() noexcept;
  [[nodiscard]] std::span<std::byte> take(std::size_t octets) noexcept;

  // What every posting needs comes first, close together: many queue pairs share a cache.
  std::shared_ptr<Adapter> adapter_;
  CompletionQueue* send_cq_ = nullptr;  // as in the setup
  std::atomic<bool> is_direct_{false};  // requests go directly; changes with both locks held
  std::atomic<bool> is_near_{false};    // they do, or may yet; changes with both locks held
  std::uint32_t postings_ = 0;          // that went the short way
  host::QueueLock lock_;  // guards the machine while is_direct_, receives while is_near_
  std::optional<direct::Requester> direct_;  // none: packets
  std::optional<transport::QueuePairMachine> machine_;

  Setup setup_;
  wire::QpNumber number_{};
  std::vector<std::span<std::byte>> blocks_;   // in the segment
  std::span<std::byte> state_block_;           // of these, the receiving half's state,
  std::span<std::byte> receive_block_;         // its own receive queue
  std::span<std::byte> receive_lane_;          // and the completions of its receives
  std::unique_ptr<std::byte[]> send_block_;    // private
  std::unique_ptr<std::byte[]> replay_block_;  // private; READs and atomics that were executed
  std::optional<transport::CompletionPort> send_port_;
  std::optional<transport::CompletionPort> receive_port_;
  bool in_domain_ = false;
  bool in_shared_ = false;
  bool numbered_ = false;
  direct::Half half_;                        // connected types only
  Occupancy::Snapshot stray_visit_ = 0;      // the one that was noted last
  std::shared_ptr<LeftBehind> left_behind_;  // with it
  DataPath data_path_ = DataPath::kPackets;
  struct {
    bool uses_packets = false;
    bool sends_directly = false;
    bool receives_directly = false;
  } counts_;  // as what it counts now
  LateReceive late_;
  int waiting_packets_ = 0;
  AgendaEntry agenda_entry_;
  wire::CommId awaited_{};
};

}  // namespace verbatim::device
