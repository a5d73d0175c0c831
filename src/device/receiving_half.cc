// SPDX-License-Identifier: Apache-2.0
#include "device/receiving_half.h"

#include <algorithm>

#include "device/adapter.h"
#include "device/completion_queue.h"
#include "device/shared_receive_queue.h"

namespace verbatim::device {
namespace {

// The completions of one queue pair on a shared receive queue that may wait, however deep the
// shared queue is.
constexpr std::uint32_t kSharedLanePlaces = 1U << 14;

bool is_connected(transport::QpType type) noexcept {
  return type == transport::QpType::kRc || type == transport::QpType::kUc;
}

}  // namespace

// ---- From its blocks to its end ----

Status ReceivingHalf::build(transport::QueuePairMachine::Parts& parts) {
  using transport::CompletionLane;
  host::Segment& segment = adapter_.segment();
  std::uint32_t places = setup_.receive_depth;
  if (setup_.shared != nullptr) {
    parts.shared_receive = setup_.shared->view();
    // The program may post to a shared queue again before it polls. So the depth of the shared
    // queue does not limit the completions that wait. The completion queue does: a full one has
    // overrun.
    places = std::min(setup_.receive_cq->capacity(),
                      std::max(setup_.shared->depth(), kSharedLanePlaces));
    setup_.receive_cq->pin_capacity();
    setup_.shared->add_user();
    uses_shared_ = true;
  } else {
    const transport::ReceiveQueue::Limits limits{.depth = setup_.receive_depth,
                                                 .sge_limit = std::max(setup_.receive_sges, 1U)};
    receive_block_ = segment.take(transport::ReceiveQueue::octets_for(limits));
    if (receive_block_.empty()) return Errc::kNoMemory;
    parts.receive_queue = transport::ReceiveQueue::create(receive_block_, limits);
  }
  lane_block_ = segment.take(CompletionLane::octets_for(places));
  if (lane_block_.empty()) return Errc::kNoMemory;
  auto port = setup_.receive_cq->attach(CompletionLane::create(lane_block_, places));
  if (!port) return port.error();
  port_ = *port;
  parts.receive_port = *port_;
  state_block_ = segment.take(sizeof(transport::ResponderState));
  if (state_block_.empty()) return Errc::kNoMemory;
  parts.responder = new (state_block_.data()) transport::ResponderState;
  return Ok{};
}

direct::Half::Parts ReceivingHalf::parts() const noexcept {
  host::Segment& segment = adapter_.segment();
  return {.responder_at = segment.offset_of(state_block_.data()),
          .receive_at = receive_block_.empty() ? 0 : segment.offset_of(receive_block_.data()),
          .shared_at = setup_.shared == nullptr ? 0 : segment.offset_of(setup_.shared->block()),
          .lane_at = segment.offset_of(lane_block_.data()),
          .board_at = segment.offset_of(setup_.receive_cq->board()),
          .lane_hint = port_->hint(),
          .end = segment.octets_used()};
}

void ReceivingHalf::publish(wire::QpNumber number) {
  if (!is_connected(setup_.type)) return;
  half_ = direct::Half(&adapter_.layout().half(number), parts());
  adapter_.visitors().add_half(*this);
}

void ReceivingHalf::end() {
  if (!half_.exists()) return;
  bar(Then::kEnds);
  half_.begin({}, {});  // with no requester
  half_.close();
  adapter_.visitors().remove_half(*this);
}

void ReceivingHalf::release() {
  if (port_) setup_.receive_cq->detach(*port_);
  if (uses_shared_) {
    // A receive that a message had begun to fill waits for another message.
    if (machine_ != nullptr) setup_.shared->view().put_back(machine_->receiver().claimant());
    setup_.shared->drop_user();
    setup_.receive_cq->unpin_capacity();
  }
  for (const auto block : {state_block_, receive_block_, lane_block_}) {
    if (!block.empty()) adapter_.visitors().give_back(block);
  }
}

void ReceivingHalf::begin(const direct::Half::Ends& ends, direct::Visitor visitor) noexcept {
  half_.begin(ends, std::move(visitor));
  stray_visit_ = 0;
}

bool ReceivingHalf::has_failed() const noexcept {
  const transport::ResponderState& state = machine_->responder_state();
  return transport::takes_requests(machine_->state()) &&
         (transport::is_failing(state) || transport::has_failed(state));
}

void ReceivingHalf::discard_completions() noexcept {
  if (port_) setup_.receive_cq->discard(*port_);
}

// ---- Keeping requesters out ----

bool ReceivingHalf::is_disturbed_by(transport::QpMask mask,
                                    const transport::QpAttributes& attributes) const noexcept {
  using transport::QpMask;
  constexpr QpMask kRead = QpMask::kAccess | QpMask::kMinRnrTimer | QpMask::kMaxDestReadAtomic |
                           QpMask::kPathMtu | QpMask::kDestQp | QpMask::kReceivePsn |
                           QpMask::kAddress;
  const bool stays_open =
      transport::takes_requests(machine_->state()) &&
      (!names(mask, QpMask::kState) || transport::takes_requests(attributes.state));
  return !stays_open || (mask & kRead) != QpMask{};
}

void ReceivingHalf::bar(Then then) noexcept {
  half_.shut();
  if (!half_.may_be_visited()) return;
  if (direct::Half::await({&half_}, kLeavingPatience).empty()) return;
  note_stray();
  if (then == Then::kEnds) adapter_.visitors().lock_out(*this, adapter_.homes());
}

bool ReceivingHalf::reopen() noexcept {
  const bool opens = transport::takes_requests(machine_->state());
  opens ? half_.open() : half_.close();
  return opens;
}

std::set<memory::DomainId> ReceivingHalf::domains() const {
  std::set<memory::DomainId> domains{setup_.domain};
  if (setup_.shared != nullptr) domains.insert(setup_.shared->view().domain());
  return domains;
}

void ReceivingHalf::note_stray() {
  if (half_.given_up() == stray_visit_) return;
  stray_visit_ = half_.given_up();
  left_behind_ = std::make_shared<LeftBehind>();
  host::Quarantine::Stray stray{
      .has_gone = {},
      .touches = {state_block_.data(), lane_block_.data(), setup_.receive_cq->board()},
      .on_gone = [left_behind = left_behind_] { left_behind->put_back(); }};
  if (!receive_block_.empty()) stray.touches.push_back(receive_block_.data());
  if (setup_.shared != nullptr) stray.touches.push_back(setup_.shared->block());
  adapter_.visitors().add_stray(half_, std::move(stray));
}

void ReceivingHalf::leave_requester_behind() {
  half_.lock_out();
  host::Segment& segment = adapter_.segment();
  // A requester that completes a receive publishes the completion first and changes the state last.
  // The state is copied first and the queues are moved last, so no completion is lost.
  const transport::ResponderState copy = machine_->receiver().copy_of_state();
  const auto state = segment.take(sizeof copy);
  const auto lane = segment.take(lane_block_.size());
  const auto queue =
      receive_block_.empty() ? std::span<std::byte>() : segment.take(receive_block_.size());
  if (state.empty() || lane.empty() || queue.size() != receive_block_.size()) {
    for (const auto block : {state, lane, queue}) {
      if (!block.empty()) segment.give_back(block);
    }
    return half_.wait_for_visitor();  // there is no room to go on in
  }
  if (setup_.shared != nullptr) {
    left_behind_->remember(setup_.shared->view(), machine_->receiver().claimant(), copy);
  }
  transport::Receiver::Place to;
  to.responder = new (state.data()) transport::ResponderState(copy);
  if (!queue.empty()) to.queue = machine_->receiver().queue().move_to(queue);
  port_ = setup_.receive_cq->move_lane(*port_, lane);
  to.port = *port_;
  machine_->receiver().move_to(to);
  for (const auto old : {state_block_, lane_block_, receive_block_}) {
    if (!old.empty()) adapter_.visitors().give_back(old);
  }
  state_block_ = state;
  lane_block_ = lane;
  receive_block_ = queue;
  half_.move(parts());
  half_.close();
}

void ReceivingHalf::LeftBehind::remember(const transport::SharedReceiveRing& queue,
                                         std::uint32_t who,
                                         const transport::ResponderState& state) {
  shared = queue;
  claimant = who;
  if (!state.receive_taken || !shared.is_claimed_by(claimant, state.shared_cell)) return;
  const auto elements = shared.list_of(shared.at(state.shared_cell));
  cell = state.shared_cell;
  wr_id = state.shared_wr_id;
  list.assign(elements.begin(), elements.end());
}

/// The stray has reported no receive that it had claimed. The receive is there for the next
/// message, also if the stray filled it and gave the cell back.
void ReceivingHalf::LeftBehind::put_back() {
  if (claimant == 0) return;
  if (cell && !shared.is_claimed_by(claimant, *cell)) {
    (void)shared.post({.wr_id = wr_id, .list = list});  // full: it has been replaced already
  }
  shared.put_back(claimant);
}

}  // namespace verbatim::device
