// SPDX-License-Identifier: Apache-2.0
#include "device/queue_pair.h"

#include <algorithm>

#include "device/async_event.h"
#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/limits.h"

namespace verbatim::device {
namespace {

// What may be in flight: some trains of packets, which a peer's socket buffer takes while its
// program is busy. An acknowledgement is asked for with every fourth part, which is whole trains.
constexpr std::uint32_t kWindowOctets = 480 * 1024;
constexpr std::uint32_t kWindowPackets = 512;
// Unreliable services are not told of losses. They send a train at a time, at a rate that would
// fill a socket buffer like ours in this time: so long may the receiving process be kept from the
// CPU.
constexpr std::uint32_t kUnreliableTrainOctets = 64 * 1024;
constexpr Duration kReceiverMayPause = std::chrono::microseconds(1600);
// Completions of one queue pair on a shared receive queue that may wait, however deep the queue is.
constexpr std::uint32_t kSharedLanePlaces = 1U << 14;
// Postings that go the short way before the completion queue is looked at for an overrun.
constexpr std::uint32_t kPostingsPerLook = 32;
// How long a peer that is in our receiving half is waited for. Who is longer there is stopped.
constexpr Duration kLeavingPatience = std::chrono::milliseconds(100);

bool is_connected(transport::QpType type) noexcept {
  return type == transport::QpType::kRc || type == transport::QpType::kUc;
}

}  // namespace

Expected<std::unique_ptr<QueuePair>> QueuePair::create(std::shared_ptr<Adapter> adapter,
                                                       const Setup& setup) {
  const bool receives = setup.shared == nullptr && setup.type != transport::QpType::kXrcTarget;
  if (setup.send_depth > kMaxQueueDepth || setup.send_sges > kMaxSges ||
      setup.inline_octets > kMaxInlineOctets ||
      (receives && (setup.receive_depth > kMaxQueueDepth || setup.receive_sges > kMaxSges))) {
    return Errc::kInvalidArgument;
  }
  auto qp = std::make_unique<QueuePair>(adapter, setup);
  Status built = Ok{};
  {
    const std::lock_guard lock(adapter->mutex());
    built = qp->build();
  }
  if (!built) return built.error();  // what was built is taken down by the destructor
  return qp;
}

std::span<std::byte> QueuePair::take(std::size_t octets) noexcept {
  const auto block = adapter_->segment().take(octets);
  if (!block.empty()) blocks_.push_back(block);
  return block;
}

Status QueuePair::build() {
  using transport::CompletionLane;
  if (auto added = adapter_->domains().add_user(setup_.domain); !added) return added;
  in_domain_ = true;
  transport::QueuePair::Parts parts;
  parts.keys = adapter_->keys().table();

  const bool is_datagram = setup_.type == transport::QpType::kUd;
  const transport::SendQueue::Limits send_limits{.depth = setup_.send_depth,
                                                 .sge_limit = std::max(setup_.send_sges, 1U),
                                                 .inline_limit = setup_.inline_octets,
                                                 .carries_paths = is_datagram,
                                                 .carries_binds = !is_datagram};
  const std::size_t send_octets = transport::SendQueue::octets_for(send_limits);
  send_block_.reset(new (std::nothrow) std::byte[send_octets + 64]);
  if (send_block_ == nullptr) return Errc::kNoMemory;
  void* aligned = send_block_.get();
  std::size_t room = send_octets + 64;
  std::align(64, send_octets, aligned, room);
  parts.send_queue =
      transport::SendQueue(std::span(static_cast<std::byte*>(aligned), send_octets), send_limits);

  receive_lane_places_ = setup_.receive_depth;
  if (setup_.shared != nullptr) {
    parts.shared_receive = setup_.shared->view();
    // A shared queue may be posted to again before anybody polls, so its depth does not limit the
    // completions that wait; the completion queue does, and a full one has overrun.
    receive_lane_places_ = std::min(setup_.receive_cq->capacity(),
                                    std::max(setup_.shared->depth(), kSharedLanePlaces));
    setup_.receive_cq->pin_capacity();
    setup_.shared->add_user();
    in_shared_ = true;
  } else {
    const transport::ReceiveQueue::Limits limits{.depth = setup_.receive_depth,
                                                 .sge_limit = std::max(setup_.receive_sges, 1U)};
    const auto block = take(transport::ReceiveQueue::octets_for(limits));
    if (block.empty()) return Errc::kNoMemory;
    parts.receive_queue = transport::ReceiveQueue::create(block, limits);
    receive_block_ = block.data();
  }
  send_lane_places_ = setup_.send_depth;
  const auto attach = [&](CompletionQueue& cq,
                          std::uint32_t& places) -> Expected<transport::CompletionPort> {
    const auto block = take(CompletionLane::octets_for(places));
    if (block.empty()) return Errc::kNoMemory;
    auto lane = CompletionLane::create(block, places);
    receive_lane_ = block.data();  // the second of the two
    places = lane.depth();
    return cq.attach(lane);
  };
  auto send_port = attach(*setup_.send_cq, send_lane_places_);
  if (!send_port) return send_port.error();
  send_port_ = *send_port;
  auto receive_port = attach(*setup_.receive_cq, receive_lane_places_);
  if (!receive_port) return receive_port.error();
  receive_port_ = *receive_port;
  parts.send_port = *send_port_;
  parts.receive_port = *receive_port_;

  const auto state = take(sizeof(transport::ResponderState));
  if (state.empty()) return Errc::kNoMemory;
  parts.responder = new (state.data()) transport::ResponderState;

  auto number = adapter_->add(*this);
  if (!number) return number.error();
  number_ = *number;
  numbered_ = true;
  if (is_connected(setup_.type)) build_half(state.data());
  recount();
  machine_ = std::make_unique<transport::QueuePair>(
      transport::QueuePair::Config{
          .type = setup_.type,
          .number = number_,
          .domain = setup_.domain,
          .signal_all = setup_.signal_all,
          .port_mtu = adapter_->port().active_mtu,
          .window_packets = kWindowPackets,
          .window_octets = kWindowOctets,
          .read_chunk_packets = kWindowPackets / 4,
          .read_chunk_octets = kWindowOctets / 4,
          .unreliable_rate = {.octets = kUnreliableTrainOctets,
                              .period = kReceiverMayPause * kUnreliableTrainOctets /
                                        adapter_->receive_buffer_octets()}},
      parts);
  return Ok{};
}

QueuePair::~QueuePair() {
  const std::lock_guard lock(adapter_->mutex());
  adapter_->send_what_is_owed();
  if (half_.exists()) bar_half();
  if (half_.exists()) {
    half_.begin({});  // nobody's
    half_.close();
  }
  if (machine_ != nullptr) set_way(Way::kPackets);
  if (numbered_) adapter_->remove(*this);
  numbered_ = false;
  recount();
  if (send_port_) setup_.send_cq->detach(*send_port_, send_lane_places_);
  if (receive_port_) setup_.receive_cq->detach(*receive_port_, receive_lane_places_);
  if (in_shared_) {
    // What a message had begun with waits for another one: nobody will report it any more.
    setup_.shared->view().put_back(static_cast<std::uint32_t>(number_) |
                                   transport::Landing::kQpClaimBit);
    setup_.shared->drop_user();
    setup_.receive_cq->unpin_capacity();
  }
  if (in_domain_) adapter_->domains().drop_user(setup_.domain);
  for (const auto& block : blocks_) adapter_->segment().give_back(block);
}

Status QueuePair::modify(transport::QpMask mask, const transport::QpAttributes& attributes,
                         const Adapter::Destination* to) noexcept {
  const NearEnd near_end = find_near_end(mask, attributes, to);
  const bool connects = half_.exists() && names(mask, transport::QpMask::kState) &&
                        attributes.state == transport::QpState::kReadyToReceive;
  const bool is_direct_or_nothing = adapter_->path_policy() == PathPolicy::kDirect;
  if (connects && is_direct_or_nothing && !near_end.is_near) return Errc::kNotSupported;
  const std::lock_guard lock(adapter_->mutex());
  adapter_->send_what_is_owed();  // the state it goes to may not allow it
  transport::Path path;
  if (names(mask, transport::QpMask::kAddress)) {
    if (to == nullptr) return Errc::kInvalidArgument;
    auto found = adapter_->path_to(*to);
    if (!found) return found.error();
    path = *found;
  }
  auto held = hold();
  if (half_.exists()) bar_half();
  const transport::QpState from = machine_->state();
  auto modified = machine_->modify(mask, attributes, &path);
  if (half_.exists()) {
    if (modified) follow(from, near_end);
    reopen_half();
  }
  if (held.owns_lock()) held.unlock();
  adapter_->serve(*this);
  held = hold();
  if (modified && machine_->attributes().state == transport::QpState::kReset) {
    discard_completions();
  }
  return modified;
}

/// A new life begins: whoever uses the queue pair anew must not meet completions of the old one.
void QueuePair::discard_completions() noexcept {
  if (send_port_) setup_.send_cq->discard(*send_port_);
  if (receive_port_) setup_.receive_cq->discard(*receive_port_);
}

transport::QpAttributes QueuePair::attributes() noexcept {
  const std::lock_guard lock(adapter_->mutex());
  const auto held = hold();
  auto attributes = machine_->attributes();
  if (way_ == Way::kDirect) attributes.send_psn = direct_->next_psn();
  return attributes;
}

bool QueuePair::is_draining() noexcept {
  const std::lock_guard lock(adapter_->mutex());
  const auto held = hold();
  return machine_->is_draining();
}

Status QueuePair::Posting::send(const transport::SendRequest& request) noexcept {
  sends_ = true;
  return qp_.machine_->post_send(request);
}

Status QueuePair::Posting::receive(const transport::ReceiveRequest& request) noexcept {
  auto posted = qp_.machine_->post_receive(request);
  if (posted && qp_.half_.exists() && qp_.half_.take_waiting()) qp_.wake_peer();
  return posted;
}

/// True with the queue pair's own lock held, false with the adapter's.
bool QueuePair::lock_for_posting() noexcept {
  // Which of the two it is may change while this waits for one of them.
  for (;;) {
    if (is_direct_.load(std::memory_order_relaxed)) {
      lock_.lock();
      if (is_direct_.load(std::memory_order_relaxed)) return true;
      lock_.unlock();
    } else {
      adapter_->mutex().lock();
      if (!is_direct_.load(std::memory_order_relaxed)) return false;
      adapter_->mutex().unlock();
    }
  }
}

std::unique_lock<host::QueueLock> QueuePair::hold() noexcept {
  std::unique_lock lock(lock_, std::defer_lock);
  if (direct_ != nullptr) lock.lock();  // also while undecided: it may be decided meanwhile
  return lock;
}

QueuePair::Posting::~Posting() {
  if (is_direct_) {
    const bool is_done =
        sends_ ? qp_.execute_directly() : qp_.machine_->state() != transport::QpState::kError;
    qp_.lock_.unlock();
    if (is_done) [[likely]]
      return;
    const std::lock_guard lock(qp_.adapter_->mutex());
    qp_.adapter_->serve(qp_);
    return;
  }
  const std::lock_guard lock(qp_.adapter_->mutex(), std::adopt_lock);
  if (sends_) {
    qp_.adapter_->serve(qp_);
  } else if (qp_.machine_->state() == transport::QpState::kError) {
    qp_.announce();  // a receive that was flushed at once
  }
}

void QueuePair::announce() noexcept {
  while (auto event = machine_->poll_event()) {
    report(setup_.async, async_event_of(*event), setup_.user_tag);
  }
  const bool send_overrun = setup_.send_cq->announce();
  const bool receive_overrun = setup_.receive_cq != setup_.send_cq && setup_.receive_cq->announce();
  if (setup_.shared != nullptr) setup_.shared->announce();
  if (send_overrun || receive_overrun) {
    if (half_.exists()) bar_half();
    machine_->handle_completion_overrun();
    if (half_.exists()) reopen_half();
    while (auto event = machine_->poll_event()) {
      report(setup_.async, async_event_of(*event), setup_.user_tag);
    }
  }
}

// ---- On one host ----

void QueuePair::build_half(const std::byte* responder) noexcept {
  const host::Segment& segment = adapter_->segment();
  half_ = direct::Half(
      &adapter_->half_record(number_),
      {.responder_at = segment.offset_of(responder),
       .receive_at = receive_block_ == nullptr ? 0 : segment.offset_of(receive_block_),
       .shared_at = setup_.shared == nullptr ? 0 : segment.offset_of(setup_.shared->block()),
       .lane_at = segment.offset_of(receive_lane_),
       .board_at = segment.offset_of(setup_.receive_cq->board()),
       .lane_index = receive_port_->index()});
}

/// Who is at the other end, if it is on this host and lets us in. Takes a while.
QueuePair::NearEnd QueuePair::find_near_end(transport::QpMask mask,
                                            const transport::QpAttributes& attributes,
                                            const Adapter::Destination* to) {
  const bool connects = half_.exists() && names(mask, transport::QpMask::kState) &&
                        attributes.state == transport::QpState::kReadyToReceive &&
                        names(mask, transport::QpMask::kDestQp) && to != nullptr;
  if (!connects || !adapter_->goes_directly() || !adapter_->is_own_address(to->gid)) return {};
  const std::uint32_t slot = slot_of(attributes.dest_qp);
  if (slot == adapter_->slot()) return {.is_near = true};
  auto peer = adapter_->host_peers().attach(slot);
  if (peer == nullptr || !peer->answers_at(to->gid.octets)) return {};
  return {.is_near = true, .peer = std::move(peer)};
}

/// What a change of state means for the way that requests take.
void QueuePair::follow(transport::QpState from, const NearEnd& near_end) {
  using transport::QpState;
  const transport::QpAttributes now = machine_->attributes();
  const transport::Path& path = machine_->path();
  if (now.state == QpState::kReset) {
    set_way(Way::kPackets);
    direct_.reset();
  }
  if (from == QpState::kInit && now.state == QpState::kReadyToReceive) {
    const std::uint32_t mtu = octets_of(now.path_mtu);
    half_.begin({.type = setup_.type,
                 .dest_qp = now.dest_qp,
                 .path_mtu = mtu,
                 .first_psn = now.receive_psn.raw(),
                 .pkey = path.pkey,
                 .local = path.source,
                 .remote = path.destination});
    set_way(near_end.is_near ? Way::kUndecided : Way::kPackets);
    if (!near_end.is_near) return;
    adapter_->homes().share(setup_.domain);
    direct_ = std::make_unique<direct::Requester>(
        &machine_->send_queue(), machine_->send_port(), adapter_->keys().table(),
        direct::Target(near_end.peer, adapter_->as_target(),
                       {.number = number_,
                        .dest_qp = now.dest_qp,
                        .type = setup_.type,
                        .pkey = path.pkey,
                        .path_mtu = mtu,
                        .local = path.source,
                        .remote = path.destination},
                       &device::now),
        &device::now);
  }
  if (direct_ != nullptr && machine_->is_sending()) {
    start_directly(from == QpState::kReadyToReceive);
  }
}

void QueuePair::start_directly(bool afresh) noexcept {
  const transport::QpAttributes now = machine_->attributes();
  const direct::Requester::Config config{
      .domain = setup_.domain,
      .number = number_,
      .path_mtu = octets_of(now.path_mtu),
      .retry_limit = now.retry_count,
      .rnr_retry_limit = now.rnr_retry,
      .max_read_atomic = now.max_read_atomic,
      .is_reliable = setup_.type == transport::QpType::kRc,
      .ack_timeout = now.timeout == 0 ? Duration::zero() : Duration(4096LL << now.timeout)};
  afresh ? direct_->start(config, now.send_psn) : direct_->reconfigure(config);
  direct_->pause(now.state == transport::QpState::kSendQueueDrained);
}

void QueuePair::set_way(Way way) noexcept {
  way_ = way;
  recount();
  is_direct_.store(way == Way::kDirect, std::memory_order_relaxed);
  machine_->hand_over_sends(way != Way::kPackets);
}

/// Who polls looks at the sockets only for those who use packets, and pays for arming only where
/// completions come directly.
void QueuePair::recount() noexcept {
  const auto settle = [](bool is_so, bool& was_so, auto&& count) {
    if (is_so != was_so) count(is_so ? 1 : -1);
    was_so = is_so;
  };
  const bool receives_directly = half_.exists() && half_.is_claimed_directly();
  const bool is_undecided = way_ == Way::kUndecided && !receives_directly;
  const bool uses_packets =
      !half_.exists() || way_ == Way::kPackets || is_undecided || half_.is_claimed_by_packets();
  settle(numbered_ && uses_packets, counts_.uses_packets,
         [&](int change) { adapter_->count_packet_users(change); });
  settle(way_ == Way::kDirect, counts_.sends_directly,
         [&](int change) { setup_.send_cq->count_direct_users(change); });
  settle(receives_directly, counts_.receives_directly,
         [&](int change) { setup_.receive_cq->count_direct_users(change); });
  if (way_ != Way::kPackets || receives_directly) adapter_->note_direct_use();
}

/// Nobody is in the receiving half when this returns, unless a peer was stopped in there.
void QueuePair::bar_half() noexcept {
  half_.shut();
  (void)half_.wait_until_left(kLeavingPatience);
}

void QueuePair::reopen_half() noexcept {
  if (!machine_->takes_requests()) {
    half_.close();
    return;
  }
  half_.open();
  wake_peer();  // it may have waited for us to be ready
}

void QueuePair::wake_peer() noexcept {
  if (direct_ != nullptr) direct_->target().wake();
}

/// The short way through: false when there is more to do than this thread can do alone.
bool QueuePair::execute_directly() noexcept {
  auto stop = direct::Requester::Stop::kFailed;
  void* fault_at = nullptr;
  if (!guarded([&] { stop = direct_->run(); }, &fault_at)) {
    direct_->handle_memory_fault(fault_at);
    return false;
  }
  // What overruns a completion queue waits in its lanes, so it may be noticed late.
  const bool looks_for_overrun = ++postings_ % kPostingsPerLook == 0;
  const CompletionQueue& cq = *setup_.send_cq;
  return stop == direct::Requester::Stop::kIdle && !cq.has_event() &&
         !(looks_for_overrun && cq.may_overrun()) &&
         machine_->state() == transport::QpState::kReadyToSend;
}

bool QueuePair::run_directly() noexcept {
  if (direct_ == nullptr || way_ == Way::kPackets || !machine_->is_sending()) return true;
  auto stop = direct::Requester::Stop::kIdle;
  void* fault_at = nullptr;
  if (!guarded([&] { stop = direct_->run(); }, &fault_at)) {
    direct_->handle_memory_fault(fault_at);
    stop = direct::Requester::Stop::kFailed;
  }
  if (direct_->has_met() && way_ == Way::kUndecided) set_way(Way::kDirect);
  switch (stop) {
    case direct::Requester::Stop::kStrangers:
      if (adapter_->path_policy() == PathPolicy::kDirect) {
        fail_sends();
      } else {
        set_way(Way::kPackets);
      }
      break;
    case direct::Requester::Stop::kFailed:
      fail_sends();
      break;
    case direct::Requester::Stop::kMore:
      return false;
    case direct::Requester::Stop::kIdle:
    case direct::Requester::Stop::kWaiting:
      break;
  }
  machine_->settle();
  return true;
}

void QueuePair::fail_sends() noexcept {
  bar_half();
  machine_->handle_send_failure();
  reopen_half();
}

void QueuePair::enter_error() noexcept {
  if (half_.exists()) bar_half();
  const transport::QpAttributes in_error{.state = transport::QpState::kError};
  (void)machine_->modify(transport::QpMask::kState, in_error, nullptr);  // from any state
  if (half_.exists()) reopen_half();
}

void QueuePair::handle_bell() noexcept {
  if (half_.exists() && half_.has_begun()) {
    machine_->handle_first_request();
    recount();
  }
  if (machine_->responder_state().failed && machine_->takes_requests()) {
    bar_half();
    machine_->settle();
    reopen_half();
  }
}

void QueuePair::handle_reply(const direct::Errand& reply, std::span<const std::byte> octets) {
  if (direct_ != nullptr) direct_->handle_reply(reply, octets);
}

void QueuePair::handle_death(std::uint32_t slot) noexcept {
  if (half_.exists()) half_.handle_death(slot);
}

Instant QueuePair::next_timeout() const noexcept {
  const Instant next = machine_->next_timeout();
  return direct_ == nullptr || way_ == Way::kPackets ? next
                                                     : std::min(next, direct_->next_timeout());
}

}  // namespace verbatim::device
