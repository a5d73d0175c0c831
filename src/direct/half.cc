// SPDX-License-Identifier: Apache-2.0
#include "direct/half.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <span>

#include "host/membarrier.h"
#include "host/slot.h"

namespace verbatim::direct {

Half::Half(HalfRecord* record, const Parts& parts) noexcept
    : record_(record), life_(static_cast<std::uint32_t>(record->claim >> 32)) {
  record_->responder_at = parts.responder_at;
  record_->receive_at = parts.receive_at;
  record_->shared_at = parts.shared_at;
  record_->lane_at = parts.lane_at;
  record_->board_at = parts.board_at;
  record_->lane_index = parts.lane_index;
}

void Half::begin(const Ends& ends) noexcept {
  record_->type = ends.type;
  record_->dest_qp = ends.dest_qp;
  record_->path_mtu = ends.path_mtu;
  record_->first_psn = ends.first_psn;
  record_->pkey = ends.pkey;
  record_->local = ends.local;
  record_->remote = ends.remote;
  std::atomic_ref(record_->began).store(0, std::memory_order_relaxed);
  std::atomic_ref(record_->waits).store(0, std::memory_order_relaxed);
  ++life_;
  std::atomic_ref(record_->claim)
      .store(HalfRecord::claim_of(life_, HalfRecord::kNobody), std::memory_order_release);
}

void Half::open() noexcept {
  // pairs with Target::meet() and Target::enter()
  std::atomic_ref(record_->gate).store(HalfRecord::kOpen, std::memory_order_release);
}

void Half::shut() noexcept {
  std::atomic_ref(record_->gate).store(HalfRecord::kShut, std::memory_order_seq_cst);
}

void Half::close() noexcept {
  std::atomic_ref(record_->gate).store(HalfRecord::kNone, std::memory_order_seq_cst);
}

bool Half::wait_until_left(Duration patience) const noexcept {
  const auto start = std::chrono::steady_clock::now();
  return quiesce(std::span(&record_->inside, 1), host::Membarrier::all_processes,
                 [&](const Occupancy&) {
                   ::sched_yield();
                   return std::chrono::steady_clock::now() - start < patience;
                 });
}

bool Half::admits_packets() noexcept {
  std::atomic_ref claim(record_->claim);
  std::uint64_t now = claim.load(std::memory_order_relaxed);
  const std::uint64_t ours = HalfRecord::claim_of(life_, HalfRecord::kPackets);
  if (now == ours) return true;
  if (now != HalfRecord::claim_of(life_, HalfRecord::kNobody)) return false;
  return claim.compare_exchange_strong(now, ours, std::memory_order_acq_rel);
}

bool Half::is_claimed_directly() const noexcept {
  const std::uint64_t now = std::atomic_ref(record_->claim).load(std::memory_order_relaxed);
  return (now & HalfRecord::kDirectBit) != 0;
}

bool Half::is_claimed_by_packets() const noexcept {
  const std::uint64_t now = std::atomic_ref(record_->claim).load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(now) == HalfRecord::kPackets;
}

bool Half::has_begun() const noexcept {
  return std::atomic_ref(record_->began).load(std::memory_order_relaxed) != 0;
}

void Half::handle_death(std::uint32_t slot) noexcept {
  const auto claimant =
      static_cast<std::uint32_t>(std::atomic_ref(record_->claim).load(std::memory_order_relaxed));
  const bool was_its = (claimant & HalfRecord::kDirectBit) != 0 &&
                       (claimant & wire::kQpNumberMask) / host::kNumbersPerSlot == slot;
  if (was_its) record_->inside.vacate();
}

bool Half::take_waiting() noexcept {
  std::atomic_ref waits(record_->waits);
  if (waits.load(std::memory_order_relaxed) == 0) return false;
  return waits.exchange(0, std::memory_order_acq_rel) != 0;
}

}  // namespace verbatim::direct
