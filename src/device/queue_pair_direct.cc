// SPDX-License-Identifier: Apache-2.0
// The direct path of a queue pair: its requester, and the choice of the data path. The rest is in
// queue_pair.cc.
#include <algorithm>

#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/process.h"
#include "device/queue_pair.h"
#include "device/slot_of.h"

namespace verbatim::device {

/// The process at the other end, if it is on this host and admits this process. It may take 100 ms.
QueuePair::NearEnd QueuePair::find_near_end(transport::QpMask mask,
                                            const transport::QpAttributes& attributes,
                                            const Adapter::Destination* to) {
  const bool connects = receiving_.exists() && names(mask, transport::QpMask::kState) &&
                        attributes.state == transport::QpState::kReadyToReceive &&
                        names(mask, transport::QpMask::kDestQp) && to != nullptr;
  if (!connects || adapter_->path_policy() == DataPathPolicy::kPackets ||
      !adapter_->port().has(to->gid))
    return {};
  const std::uint32_t slot = slot_of(attributes.dest_qp);
  if (slot == adapter_->slot().number()) return {.is_near = true};
  const ForkPause pause;  // a child that kept the connection open would look alive to the peer
  auto peer = adapter_->peers().peers().attach(slot);
  if (peer == nullptr || !peer->answers_at(to->gid.octets)) return {};
  return {.is_near = true, .peer = std::move(peer)};
}

/// The memory moves before a peer can reach it. A page must not move while a system call of a peer
/// stores to it: the kernel holds the page without pinning it, and a peer that loses its processor
/// in the middle of the copy would store the rest to a page that the program has no longer.
void QueuePair::share_memory() {
  {
    const host::AdapterGuard lock(adapter_->mutex());
    if (machine_->state() != transport::QpState::kInit) return;
    for (const auto domain : receiving_.domains()) adapter_->homes().share(domain);
  }
  adapter_->homes().run_moves();
}

/// What a change of state means for the data path of requests.
void QueuePair::follow(transport::QpState from, const NearEnd& near_end) {
  using transport::QpState;
  const transport::QpAttributes now = machine_->attributes();
  const transport::Path& path = machine_->path();
  if (now.state == QpState::kReset) {
    set_data_path(DataPath::kPackets);
    direct_.reset();
  }
  if (from == QpState::kInit && now.state == QpState::kReadyToReceive) {
    const std::uint32_t mtu = octets_of(now.path_mtu);
    receiving_.begin(
        {.type = setup_.type,
         .number = number_,
         .dest_qp = now.dest_qp,
         .path_mtu = mtu,
         .first_psn = now.receive_psn.raw(),
         .pkey = path.pkey,
         .local = path.source,
         .remote = path.destination},
        near_end.is_near
            ? direct::Visitor::of(near_end.peer, adapter_->peers().as_target().segment, now.dest_qp)
            : direct::Visitor());
    // The peer may be able to execute its requests directly although this end is not. The peer then
    // accepts a packet only if this entry says that this end sends packets.
    visiting().choose_packets(near_end.is_near ? wire::QpNumber{} : now.dest_qp);
    set_data_path(near_end.is_near ? DataPath::kUndecided : DataPath::kPackets);
    if (!near_end.is_near) return;
    direct_.emplace(&machine_->sender().queue(),
                    machine_->sender().port().with(host::Membarrier::global()),
                    adapter_->keys().table(),
                    direct::Target(near_end.peer, adapter_->peers().as_target(),
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
  if (direct_ && transport::is_sending(machine_->state())) {
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
      .signal_all = setup_.signal_all,
      .ack_timeout = now.timeout == 0 ? Duration::zero() : Duration(4096LL << now.timeout),
      .traffic = &adapter_->layout().queue_pair(number_).traffic};
  afresh ? direct_->start(config, now.send_psn) : direct_->reconfigure(config);
  direct_->pause(now.state == transport::QpState::kSendQueueDrained);
}

/// The peer's memory is not mapped in the child. The connection to the peer's process belongs to
/// the parent: as long as any process has it open, the peer treats the parent as alive.
void QueuePair::abandon_in_child() noexcept {
  lock_.reset();
  setup_.send_cq->free_in_child();
  setup_.receive_cq->free_in_child();
  receiving_.half().forget_visitor();
  if (machine_) set_data_path(DataPath::kPackets);
  direct_.reset();
}

void QueuePair::forget_in_child() noexcept {
  lock_.reset();
  setup_.send_cq->free_in_child();
  setup_.receive_cq->free_in_child();
  data_path_ = DataPath::kPackets;
  is_direct_.store(false, std::memory_order_relaxed);
  is_near_.store(false, std::memory_order_relaxed);
  if (machine_) machine_->sender().hand_over(false);
  renew(direct_);
}

void QueuePair::set_data_path(DataPath data_path) noexcept {
  data_path_ = data_path;
  recount();
  is_direct_.store(data_path == DataPath::kDirect, std::memory_order_relaxed);
  is_near_.store(data_path != DataPath::kPackets, std::memory_order_relaxed);
  machine_->sender().hand_over(data_path != DataPath::kPackets);
}

/// Threads that poll look at the sockets only if a queue pair uses packets. Arming a completion
/// queue needs a membarrier only if a requester completes directly into it.
void QueuePair::recount() noexcept {
  const auto update_count = [](bool is_so, bool& was_so, auto&& count) {
    if (is_so != was_so) count(is_so ? 1 : -1);
    was_so = is_so;
  };
  const direct::Half& half = receiving_.half();
  const bool receives_directly = half.exists() && half.is_claimed_directly();
  const bool is_undecided = data_path_ == DataPath::kUndecided && !receives_directly;
  const bool uses_packets = !half.exists() || data_path_ == DataPath::kPackets || is_undecided ||
                            half.is_claimed_by_packets();
  update_count(numbered_ && uses_packets, counts_.uses_packets,
               [&](int change) { adapter_->work().count_packet_users(change); });
  update_count(data_path_ == DataPath::kDirect, counts_.sends_directly,
               [&](int change) { setup_.send_cq->count_direct_users(change); });
  update_count(receives_directly, counts_.receives_directly,
               [&](int change) { setup_.receive_cq->count_direct_users(change); });
  if (data_path_ != DataPath::kPackets || receives_directly) adapter_->visitors().note_direct_use();
}

/// A requester that was locked out no longer counts.
void QueuePair::bar_half(ReceivingHalf::Then then) noexcept {
  if (!receiving_.exists()) return;
  receiving_.bar(then);
  if (then == ReceivingHalf::Then::kEnds) recount();
}

void QueuePair::reopen_half() noexcept {
  if (receiving_.exists() && receiving_.reopen()) wake_peer();  // it may wait for this queue pair
}

void QueuePair::wake_peer() noexcept {
  if (direct_) direct_->target().visit().wake();
}

QueuePair::Rest QueuePair::execute_queue() noexcept {
  auto stop = direct::Requester::Stop::kIdle;
  void* fault_at = nullptr;
  if (!guarded([&] { stop = direct_->run(); }, &fault_at)) {
    direct_->handle_memory_fault(fault_at);
    return Rest::kServe;
  }
  const bool goes_on = stop == direct::Requester::Stop::kIdle &&
                       machine_->state() == transport::QpState::kReadyToSend;
  return goes_on ? rest_of_completions() : Rest::kServe;
}

bool QueuePair::run_directly() noexcept {
  if (!direct_ || data_path_ == DataPath::kPackets || !transport::is_sending(machine_->state()))
    return true;
  auto stop = direct::Requester::Stop::kIdle;
  void* fault_at = nullptr;
  if (!guarded([&] { stop = direct_->run(); }, &fault_at)) {
    direct_->handle_memory_fault(fault_at);
    stop = direct::Requester::Stop::kFailed;
  }
  if (direct_->has_met() && data_path_ == DataPath::kUndecided) set_data_path(DataPath::kDirect);
  switch (stop) {
    case direct::Requester::Stop::kMismatch:
      if (adapter_->path_policy() == DataPathPolicy::kDirect) {
        fail_sends();
      } else {
        visiting().choose_packets(dest_qp_);
        set_data_path(DataPath::kPackets);
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
  machine_->handle(transport::QueuePairMachine::OwnerEvent::kSidesChanged);
  return true;
}

void QueuePair::fail_sends() noexcept {
  bar_half(setup_.type == transport::QpType::kRc ? ReceivingHalf::Then::kEnds
                                                 : ReceivingHalf::Then::kGoesOn);
  machine_->handle(transport::QueuePairMachine::OwnerEvent::kSendFailed);
  reopen_half();
}

void QueuePair::enter_error() noexcept {
  bar_half(ReceivingHalf::Then::kEnds);
  const transport::QpAttributes in_error{.state = transport::QpState::kError};
  (void)machine_->modify(transport::QpMask::kState, in_error, nullptr);  // from any state
  reopen_half();
}

void QueuePair::handle_bell() noexcept {
  if (receiving_.exists() && receiving_.half().has_begun()) {
    machine_->handle(transport::QueuePairMachine::OwnerEvent::kFirstRequest);
    recount();
    // A queue pair that only receives meets its peer here; until then each posting of a receive
    // takes the adapter's lock.
    const bool may_meet = direct_.has_value() && data_path_ == DataPath::kUndecided &&
                          transport::is_sending(machine_->state());
    if (may_meet && direct_->meet()) set_data_path(DataPath::kDirect);
  }
  if (receiving_.has_failed()) {
    bar_half(ReceivingHalf::Then::kEnds);
    machine_->handle(transport::QueuePairMachine::OwnerEvent::kHalfFailed);
    reopen_half();
  }
}

Instant QueuePair::next_timeout() const noexcept {
  const Instant next = machine_->next_timeout();
  // As in run_directly(): requests that wait for the peer when sending ends are not tried again.
  const bool sends_directly = direct_.has_value() && data_path_ != DataPath::kPackets &&
                              transport::is_sending(machine_->state());
  return sends_directly ? std::min(next, direct_->next_timeout()) : next;
}

}  // namespace verbatim::device
