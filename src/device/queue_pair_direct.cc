// SPDX-License-Identifier: Apache-2.0
// How a queue pair goes directly to a peer of this host, and is gone to; the rest is in
// queue_pair.cc.
#include <algorithm>

#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/queue_pair.h"

namespace verbatim::device {
namespace {

// Postings that go the short way before the completion queue is looked at for an overrun.
constexpr std::uint32_t kPostingsPerLook = 32;
// How long a peer that is in our receiving half is waited for. Who is longer there is stopped.
constexpr Duration kLeavingPatience = std::chrono::milliseconds(100);

}  // namespace

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
      .signal_all = setup_.signal_all,
      .ack_timeout = now.timeout == 0 ? Duration::zero() : Duration(4096LL << now.timeout),
      .traffic = &adapter_->queue_pair_record(number_).traffic};
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
  auto stop = direct::Requester::Stop::kIdle;
  void* fault_at = nullptr;
  if (!machine_->send_queue().is_empty() && !guarded([&] { stop = direct_->run(); }, &fault_at)) {
    direct_->handle_memory_fault(fault_at);
    return false;
  }
  // What overruns a completion queue waits in its lanes, so it may be noticed late; but ours alone
  // may be too many, and then nobody may come to notice.
  const CompletionQueue& cq = *setup_.send_cq;
  const bool looks_for_overrun = cq.may_overrun() && (++postings_ % kPostingsPerLook == 0 ||
                                                      cq.is_overrun_by(send_port_->uncollected()));
  return stop == direct::Requester::Stop::kIdle && !cq.has_event() && !looks_for_overrun &&
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
    // Whoever only receives should not take the adapter's lock for it for ever.
    const bool may_meet = direct_ != nullptr && way_ == Way::kUndecided && machine_->is_sending();
    if (may_meet && direct_->meet()) set_way(Way::kDirect);
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
