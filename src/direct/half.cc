// SPDX-License-Identifier: Apache-2.0
#include "direct/half.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <utility>

#include "host/membarrier.h"
#include "host/uncancellable.h"

namespace verbatim::direct {

namespace {

// A visit normally ends within microseconds. After this time await() sleeps between two looks.
constexpr Duration kSpinning = std::chrono::milliseconds(1);
constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 100'000};

/// A half whose visit is waited for, in the form that quiesce() needs.
struct AwaitedHalf {
  Half* half = nullptr;
  bool is_stuck = false;
  [[nodiscard]] Occupancy::Snapshot snapshot() const noexcept { return half->visitor().snapshot(); }
  [[nodiscard]] bool has_left(Occupancy::Snapshot since) const noexcept {
    return half->visitor().has_left(since);
  }
};

}  // namespace

// ---- Its life ----

Half::Half(HalfRecord* record, const Parts& parts) noexcept
    : record_(record), life_(static_cast<std::uint32_t>(record->claim >> 32)) {
  move(parts);
}

void Half::move(const Parts& parts) noexcept {
  record_->responder_at = parts.responder_at;
  record_->receive_at = parts.receive_at;
  record_->shared_at = parts.shared_at;
  record_->lane_at = parts.lane_at;
  record_->board_at = parts.board_at;
  record_->lane_hint = parts.lane_hint;
  constexpr std::uint64_t kGrain = HalfRecord::kPartsGrain;
  record_->parts_end = static_cast<std::uint32_t>((parts.end + kGrain - 1) / kGrain);
}

void Half::begin(const Ends& ends, Visitor visitor) noexcept {
  record_->type = ends.type;
  record_->dest_qp = ends.dest_qp;
  record_->path_mtu = ends.path_mtu;
  record_->first_psn = ends.first_psn;
  record_->pkey = ends.pkey;
  record_->local = ends.local;
  record_->remote = ends.remote;
  number_ = ends.number;
  visitor_ = std::move(visitor);
  given_up_ = 0;
  std::atomic_ref(record_->given_up).store(0, std::memory_order_relaxed);
  ++life_;
  const auto claimant = visitor_.exists() ? HalfRecord::kUnclaimed : HalfRecord::kPackets;
  std::atomic_ref(record_->claim)
      .store(HalfRecord::claim_of(life_, claimant), std::memory_order_release);
}

void Half::lock_out() noexcept {
  ++life_;
  std::atomic_ref(record_->claim)
      .store(HalfRecord::claim_of(life_, HalfRecord::kLockedOut), std::memory_order_seq_cst);
  // Stores of a visitor that came before this are visible now. A visitor that is still inside finds
  // that it has lost its claim before it reports anything.
  host::Membarrier::all_processes();
}

void Half::open() noexcept {
  // pairs with Visit::meet() and Visit::enter()
  std::atomic_ref(record_->gate).store(HalfRecord::kOpen, std::memory_order_release);
}

void Half::shut() noexcept {
  std::atomic_ref(record_->gate).store(HalfRecord::kShut, std::memory_order_seq_cst);
}

void Half::close() noexcept {
  std::atomic_ref(record_->gate).store(HalfRecord::kNone, std::memory_order_seq_cst);
}

/// Requesters claim a half by one compare-and-swap, and this function begins another life by one.
/// So a requester that comes later finds the other life and reads the record again.
bool Half::may_be_visited() noexcept {
  std::uint64_t now = HalfRecord::claim_of(life_, HalfRecord::kUnclaimed);
  const std::uint64_t next = HalfRecord::claim_of(life_ + 1, HalfRecord::kUnclaimed);
  if (std::atomic_ref(record_->claim).compare_exchange_strong(now, next)) {
    ++life_;
    return false;
  }
  return (now & HalfRecord::kDirectBit) != 0 && visitor_.exists();
}

// ---- Waiting ----

void Half::give_up(Occupancy::Snapshot visit) noexcept {
  given_up_ = visit;
  std::atomic_ref(record_->given_up).store(visit, std::memory_order_release);
}

std::vector<Half*> Half::await(const std::vector<Half*>& halves, Duration patience) {
  std::vector<AwaitedHalf> awaited;
  for (Half* half : halves) awaited.push_back({.half = half});
  const auto start = std::chrono::steady_clock::now();
  const auto keep_waiting = [&](AwaitedHalf& one) {
    const auto waited = std::chrono::steady_clock::now() - start;
    one.is_stuck = one.snapshot() == one.half->given_up_ || waited >= patience;
    if (one.is_stuck) return false;
    if (waited < kSpinning) {
      ::sched_yield();
      return true;
    }
    one.half->visitor_.look();
    host::uncancellable::nanosleep(kNap);
    return true;
  };
  if (quiesce(awaited, host::Membarrier::all_processes, keep_waiting)) return {};
  // A visit may end while it is given up. Its requester then does not notice, and need not.
  std::erase_if(awaited, [](const AwaitedHalf& one) { return !one.is_stuck; });
  for (AwaitedHalf& one : awaited) one.half->give_up(one.snapshot());
  host::Membarrier::all_processes();
  std::vector<Half*> stuck;
  for (const AwaitedHalf& one : awaited) {
    if (!one.has_left(one.half->given_up_)) stuck.push_back(one.half);
  }
  host::Membarrier::all_processes();  // as in quiesce(): the stores of ended visits are visible
  return stuck;
}

void Half::wait_for_visitor() const noexcept {
  while (!visitor_.has_left(given_up_)) {
    visitor_.look();
    host::uncancellable::nanosleep(kNap);
  }
  host::Membarrier::all_processes();
}

// ---- The claim ----

bool Half::admits_packets() noexcept {
  std::atomic_ref claim(record_->claim);
  std::uint64_t now = claim.load(std::memory_order_relaxed);
  const std::uint64_t by_packets = HalfRecord::claim_of(life_, HalfRecord::kPackets);
  if (now == by_packets) return true;
  if (now != HalfRecord::claim_of(life_, HalfRecord::kUnclaimed)) return false;
  if (!visitor_.sends_packets_to(number_)) return false;
  return claim.compare_exchange_strong(now, by_packets, std::memory_order_acq_rel);
}

bool Half::is_claimed_directly() const noexcept {
  const std::uint64_t now = std::atomic_ref(record_->claim).load(std::memory_order_relaxed);
  return (now & HalfRecord::kDirectBit) != 0 && visitor_.exists();
}

bool Half::is_claimed_by_packets() const noexcept {
  const std::uint64_t now = std::atomic_ref(record_->claim).load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(now) == HalfRecord::kPackets;
}

bool Half::has_begun() const noexcept {
  return std::atomic_ref(record_->began).load(std::memory_order_relaxed) == life_;
}

}  // namespace verbatim::direct
