// SPDX-License-Identifier: Apache-2.0
// How a queue pair goes directly to a peer of this host, and is gone to; the rest is in
// queue_pair.cc.
#include <algorithm>

#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/process.h"
#include "device/queue_pair.h"

namespace verbatim::device {

direct::Half::Parts QueuePair::half_parts() const noexcept {
  const host::Segment& segment = adapter_->segment();
  return {.responder_at = segment.offset_of(state_block_.data()),
          .receive_at = receive_block_.empty() ? 0 : segment.offset_of(receive_block_.data()),
          .shared_at = setup_.shared == nullptr ? 0 : segment.offset_of(setup_.shared->block()),
          .lane_at = segment.offset_of(receive_lane_.data()),
          .board_at = segment.offset_of(setup_.receive_cq->board()),
          .lane_hint = receive_port_->hint()};
}

/// Who is at the other end, if it is on this host and lets us in. Takes a while.
QueuePair::NearEnd QueuePair::find_near_end(transport::QpMask mask,
                                            const transport::QpAttributes& attributes,
                                            const Adapter::Destination* to) {
  const bool connects = half_.exists() && names(mask, transport::QpMask::kState) &&
                        attributes.state == transport::QpState::kReadyToReceive &&
                        names(mask, transport::QpMask::kDestQp) && to != nullptr;
  if (!connects || adapter_->path_policy() == DataPathPolicy::kPackets ||
      !adapter_->port().has(to->gid))
    return {};
  const std::uint32_t slot = slot_of(attributes.dest_qp);
  if (slot == adapter_->slot().number()) return {.is_near = true};
  const ForkPause pause;  // a child that kept the connection would look alive to the peer
  auto peer = adapter_->peers().peers().attach(slot);
  if (peer == nullptr || !peer->answers_at(to->gid.octets)) return {};
  return {.is_near = true, .peer = std::move(peer)};
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
    half_.begin(
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
    stray_visit_ = 0;
    // The peer may be able to come directly where we are not, and then believes no packet unless
    // this says that it is ours.
    visiting().choose_packets(near_end.is_near ? wire::QpNumber{} : now.dest_qp);
    set_data_path(near_end.is_near ? DataPath::kUndecided : DataPath::kPackets);
    if (!near_end.is_near) return;
    adapter_->homes().share(setup_.domain);
    direct_.emplace(&machine_->send_queue(), machine_->send_port().with(host::Membarrier::global()),
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
  if (direct_ && machine_->is_sending()) {
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

/// The peer's memory is not mapped in the child, and the connection to its process is the parent's:
/// as long as any process has it, the peer takes the parent for alive.
void QueuePair::abandon_in_child() noexcept {
  lock_.reset();
  setup_.send_cq->free_in_child();
  setup_.receive_cq->free_in_child();
  half_.forget_visitor();
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
  if (machine_) machine_->hand_over_sends(false);
  renew(direct_);
}

void QueuePair::set_data_path(DataPath data_path) noexcept {
  data_path_ = data_path;
  recount();
  is_direct_.store(data_path == DataPath::kDirect, std::memory_order_relaxed);
  is_near_.store(data_path != DataPath::kPackets, std::memory_order_relaxed);
  machine_->hand_over_sends(data_path != DataPath::kPackets);
}

/// Who polls looks at the sockets only for those who use packets, and pays for arming only where
/// completions come directly.
void QueuePair::recount() noexcept {
  const auto update_count = [](bool is_so, bool& was_so, auto&& count) {
    if (is_so != was_so) count(is_so ? 1 : -1);
    was_so = is_so;
  };
  const bool receives_directly = half_.exists() && half_.is_claimed_directly();
  const bool is_undecided = data_path_ == DataPath::kUndecided && !receives_directly;
  const bool uses_packets = !half_.exists() || data_path_ == DataPath::kPackets || is_undecided ||
                            half_.is_claimed_by_packets();
  update_count(numbered_ && uses_packets, counts_.uses_packets,
               [&](int change) { adapter_->work().count_packet_users(change); });
  update_count(data_path_ == DataPath::kDirect, counts_.sends_directly,
               [&](int change) { setup_.send_cq->count_direct_users(change); });
  update_count(receives_directly, counts_.receives_directly,
               [&](int change) { setup_.receive_cq->count_direct_users(change); });
  if (data_path_ != DataPath::kPackets || receives_directly) adapter_->visitors().note_direct_use();
}

/// Whether a change of these attributes may not happen while somebody is in the receiving half.
bool QueuePair::disturbs_half(transport::QpMask mask,
                              const transport::QpAttributes& attributes) const noexcept {
  using transport::QpMask;
  constexpr QpMask kRead = QpMask::kAccess | QpMask::kMinRnrTimer | QpMask::kMaxDestReadAtomic |
                           QpMask::kPathMtu | QpMask::kDestQp | QpMask::kReceivePsn |
                           QpMask::kAddress;
  const bool stays_open =
      machine_->takes_requests() &&
      (!names(mask, QpMask::kState) || transport::takes_requests(attributes.state));
  return !stays_open || (mask & kRead) != QpMask{};
}

/// Nobody is in the receiving half when this returns. Somebody who is stopped there is locked out,
/// unless the half goes on: then nothing is taken away.
void QueuePair::bar_half(HalfThen then) noexcept {
  half_.shut();
  if (!half_.may_be_visited()) return;
  if (direct::Half::await({&half_}, kLeavingPatience).empty()) return;
  note_stray();
  if (then == HalfThen::kEnds) adapter_->visitors().lock_out(*this, adapter_->homes());
}

void QueuePair::note_stray() {
  if (half_.given_up() == stray_visit_) return;
  stray_visit_ = half_.given_up();
  left_behind_ = std::make_shared<LeftBehind>();
  host::Quarantine::Stray stray{
      .has_gone = {},
      .touches = {state_block_.data(), receive_lane_.data(), setup_.receive_cq->board()},
      .on_gone = [left_behind = left_behind_] { left_behind->put_back(); }};
  if (!receive_block_.empty()) stray.touches.push_back(receive_block_.data());
  if (setup_.shared != nullptr) stray.touches.push_back(setup_.shared->block());
  adapter_->visitors().add_stray(half_, std::move(stray));
}

RegionHomes::Domains QueuePair::domains() const {
  RegionHomes::Domains domains{setup_.domain};
  if (setup_.shared != nullptr) domains.insert(setup_.shared->view().domain());
  return domains;
}

void QueuePair::leave_requester_behind() {
  half_.lock_out();
  // In this order, against that in which a requester completes a receive: nothing gets lost.
  const transport::ResponderState copy = machine_->copy_of_responder();
  const auto state = take(sizeof copy);
  const auto lane = take(receive_lane_.size());
  const auto queue = receive_block_.empty() ? std::span<std::byte>() : take(receive_block_.size());
  if (state.empty() || lane.empty() || queue.size() != receive_block_.size()) {
    return half_.wait_for_visitor();  // there is no other place to go on in
  }
  if (setup_.shared != nullptr) {
    left_behind_->remember(setup_.shared->view(), machine_->shared_claimant(), copy);
  }
  transport::QueuePairMachine::Receiving to;
  to.responder = new (state.data()) transport::ResponderState(copy);
  if (!queue.empty()) to.receive_queue = machine_->receive_queue().move_to(queue);
  receive_port_ = setup_.receive_cq->move_lane(*receive_port_, lane);
  to.receive_port = *receive_port_;
  machine_->move_receiving(to);
  for (const auto old : {state_block_, receive_lane_, receive_block_}) {
    if (old.empty()) continue;
    std::erase_if(blocks_, [&](const auto& block) { return block.data() == old.data(); });
    adapter_->visitors().give_back(old);
  }
  state_block_ = state;
  receive_lane_ = lane;
  receive_block_ = queue;
  half_.move(half_parts());
  half_.close();
  recount();
}

void QueuePair::LeftBehind::remember(const transport::SharedReceiveRing& queue, std::uint32_t who,
                                     const transport::ResponderState& state) {
  shared = queue;
  claimant = who;
  if (!state.receive_taken || !shared.is_claimed_by(claimant, state.shared_slot)) return;
  const auto elements = shared.list_of(shared.at(state.shared_slot));
  slot = state.shared_slot;
  wr_id = state.shared_wr_id;
  list.assign(elements.begin(), elements.end());
}

/// Nobody has reported a receive that it had: it is there for the next message, also if it gave the
/// slot back, having filled it.
void QueuePair::LeftBehind::put_back() {
  if (claimant == 0) return;
  if (slot && !shared.is_claimed_by(claimant, *slot)) {
    (void)shared.post({.wr_id = wr_id, .list = list});  // full: it has been replaced already
  }
  shared.put_back(claimant);
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
  if (!direct_ || data_path_ == DataPath::kPackets || !machine_->is_sending()) return true;
  auto stop = direct::Requester::Stop::kIdle;
  void* fault_at = nullptr;
  if (!guarded([&] { stop = direct_->run(); }, &fault_at)) {
    direct_->handle_memory_fault(fault_at);
    stop = direct::Requester::Stop::kFailed;
  }
  if (direct_->has_met() && data_path_ == DataPath::kUndecided) set_data_path(DataPath::kDirect);
  switch (stop) {
    case direct::Requester::Stop::kStrangers:
      if (adapter_->path_policy() == DataPathPolicy::kDirect) {
        fail_sends();
      } else {
        visiting().choose_packets(machine_->dest_qp());
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
  machine_->follow_halves();
  return true;
}

void QueuePair::fail_sends() noexcept {
  bar_half(setup_.type == transport::QpType::kRc ? HalfThen::kEnds : HalfThen::kGoesOn);
  machine_->handle_send_failure();
  reopen_half();
}

void QueuePair::enter_error() noexcept {
  if (half_.exists()) bar_half(HalfThen::kEnds);
  const transport::QpAttributes in_error{.state = transport::QpState::kError};
  (void)machine_->modify(transport::QpMask::kState, in_error, nullptr);  // from any state
  if (half_.exists()) reopen_half();
}

void QueuePair::handle_bell() noexcept {
  if (half_.exists() && half_.has_begun()) {
    machine_->handle_first_request();
    recount();
    // Whoever only receives should not take the adapter's lock for it for ever.
    const bool may_meet =
        direct_.has_value() && data_path_ == DataPath::kUndecided && machine_->is_sending();
    if (may_meet && direct_->meet()) set_data_path(DataPath::kDirect);
  }
  if (half_has_failed()) {
    bar_half(HalfThen::kEnds);
    machine_->follow_abandoned_half();
    reopen_half();
  }
}

void QueuePair::handle_reply(const direct::Errand& reply, std::span<const std::byte> octets) {
  if (direct_) direct_->handle_reply(reply, octets);
}

Instant QueuePair::next_timeout() const noexcept {
  const Instant next = machine_->next_timeout();
  // As run_directly(): what waits for the peer when sending ends is not looked at again.
  const bool sends_directly =
      direct_.has_value() && data_path_ != DataPath::kPackets && machine_->is_sending();
  return sends_directly ? std::min(next, direct_->next_timeout()) : next;
}

}  // namespace verbatim::device
