// SPDX-License-Identifier: Apache-2.0
#include "direct/visit.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/pointer.h"
#include "direct/half_table.h"
#include "host/membarrier.h"
#include "host/ring.h"

namespace verbatim::direct {

Visit::Visit(std::shared_ptr<host::Peer> peer, const Own& own, const Self& self) noexcept
    : peer_(std::move(peer)), own_bell_(own.bell), self_(self) {
  segment_ = peer_ == nullptr ? own.segment : peer_->at(0, 0);
  segment_octets_ = header().octets;
  const HalfTable own_halves = HalfTable::of(own.segment);
  record_ = (peer_ == nullptr ? own_halves : HalfTable::of(*peer_)).find(self.dest_qp);
  visiting_ = &own_halves.find(self.number)->visiting;
  bells_ = host::Bells(segment_ + header().bells_at);
  const bool both_can = Fencing(header().fencing) == Fencing::kExpedited &&
                        host::Membarrier::global() == Fencing::kExpedited;
  fencing_ = both_can ? Fencing::kExpedited : Fencing::kFenced;
}

/// A peer's header is a private copy that was checked when the two attached.
const host::SegmentHeader& Visit::header() const noexcept {
  return peer_ == nullptr ? *pointer_as<const host::SegmentHeader>(segment_) : peer_->header();
}

memory::KeyTable Visit::keys() const noexcept {
  const host::SegmentHeader& of = header();
  return {{pointer_as<memory::KeyEntry>(segment_ + of.keys_at), of.key_count}, of.first_key};
}

// ---- Meeting ----

Visit::Meeting Visit::meet(HalfParts& parts) noexcept {
  if (record_ == nullptr) return Meeting::kMismatch;
  std::atomic_ref gate(record_->gate);
  std::atomic_ref claim(record_->claim);
  if (gate.load(std::memory_order_acquire) != HalfRecord::kOpen) return Meeting::kNotYet;
  std::uint64_t open = claim.load(std::memory_order_acquire);
  const bool fits = record_->dest_qp == self_.number && record_->type == self_.type &&
                    record_->remote == self_.local && record_->local == self_.remote &&
                    record_->path_mtu == self_.path_mtu && record_->pkey == self_.pkey &&
                    record_->first_psn == self_.send_psn;
  const auto open_life = static_cast<std::uint32_t>(open >> 32);
  if (!fits || open != HalfRecord::claim_of(open_life, HalfRecord::kUnclaimed)) {
    return Meeting::kMismatch;
  }
  parts = find_parts();
  state_ = parts.state;
  if (state_ == nullptr) return Meeting::kMismatch;
  const std::uint32_t claimant = static_cast<std::uint32_t>(self_.number) | HalfRecord::kDirectBit;
  claim_ = HalfRecord::claim_of(open_life, claimant);
  // What was read above belongs to this life, otherwise the claim fails.
  if (!claim.compare_exchange_strong(open, claim_, std::memory_order_acq_rel)) {
    return Meeting::kNotYet;
  }
  full_fence();  // an owner that withdraws a key sees the claim, or this thread sees it withdrawn
  return Meeting::kMet;
}

bool Visit::stand_in(HalfParts& parts) noexcept {
  if (record_ == nullptr) return false;
  visiting_ = &standing_in_;  // no thread waits for this visit: the owner's lock is held
  claim_ = std::atomic_ref(record_->claim).load(std::memory_order_acquire);
  const std::uint32_t requester = static_cast<std::uint32_t>(self_.number) | HalfRecord::kDirectBit;
  if (static_cast<std::uint32_t>(claim_) != requester) return false;
  self_.type = record_->type;
  parts = find_parts();
  state_ = parts.state;
  return state_ != nullptr;
}

/// The parts at the offsets in the record; without a state if one of them is not there.
HalfParts Visit::find_parts() const noexcept {
  const std::uint64_t parts_end =
      std::atomic_ref(record_->parts_end).load(std::memory_order_relaxed);
  const std::uint64_t end = std::min(parts_end * HalfRecord::kPartsGrain, segment_octets_);
  if (peer_ != nullptr && peer_->at(0, end) == nullptr) return {};
  // The octets from that offset to the end of the parts; each word is read once.
  const auto from = [&](std::uint64_t& word) -> std::span<std::byte> {
    const std::uint64_t at = std::atomic_ref(word).load(std::memory_order_relaxed);
    const bool is_inside = at != 0 && at % 64 == 0 && at < end;
    return is_inside ? std::span(segment_ + at, end - at) : std::span<std::byte>();
  };
  const auto state = from(record_->responder_at);
  HalfParts parts{
      .receive = transport::ReceiveQueue::attach(from(record_->receive_at)),
      .shared = transport::SharedReceiveRing::attach(from(record_->shared_at), fencing_),
      .lane = transport::CompletionLane::attach(from(record_->lane_at)),
      .board = transport::CompletionBoard::attach(from(record_->board_at)),
      .lane_hint = std::atomic_ref(record_->lane_hint).load(std::memory_order_relaxed)};
  const bool is_whole = state.size() >= sizeof(transport::ResponderState) && parts.lane.exists() &&
                        parts.board.exists() && parts.lane_hint < parts.board.hint_count() &&
                        parts.receive.exists() != parts.shared.exists();
  if (is_whole) parts.state = pointer_as<transport::ResponderState>(state.data());
  return parts;
}

// ---- The owner ----

void Visit::wake() noexcept {
  calls_owner_ = false;
  bells_.raise(static_cast<std::uint32_t>(self_.dest_qp));
  if (peer_ != nullptr) return peer_->ring();
  if (own_bell_ != nullptr) host::ring(*own_bell_);
}

/// The barrier is a fence at one point of the owner's posting. If that point is behind the store of
/// the receive, this thread sees the receive. Otherwise the owner sees that this requester waits.
void Visit::begin_waiting() noexcept {
  std::atomic_ref(record_->waits).store(life(), std::memory_order_relaxed);
  host::Membarrier::all_processes();
}

}  // namespace verbatim::direct
