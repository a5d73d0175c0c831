// SPDX-License-Identifier: Apache-2.0
#include "direct/access_list.h"

#include <sched.h>

#include <chrono>
#include <ctime>
#include <new>
#include <type_traits>

#include "host/membarrier.h"
#include "host/uncancellable.h"

namespace verbatim::direct {

namespace {

// An access normally ends within microseconds. After this time a wait sleeps between two looks.
constexpr Duration kSpinning = std::chrono::milliseconds(1);
constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 100'000};

using Clock = std::chrono::steady_clock;

/// Returns whether the access has ended before `patience` is over.
bool wait_until_left(const AccessParty& party, Occupancy::Snapshot access, Clock::time_point start,
                     Duration patience) noexcept {
  while (!party.has_left(access)) {
    const auto waited = Clock::now() - start;
    if (waited >= patience) return false;
    waited < kSpinning ? (void)::sched_yield() : host::uncancellable::nanosleep(kNap);
  }
  return true;
}

}  // namespace

AccessParty::AccessParty(Kind kind, const Occupancy& inside,
                         std::shared_ptr<host::Peer> peer) noexcept
    : kind_(kind), inside_(inside), peer_(std::move(peer)) {
  AccessList::of_process().add(*this);
}

AccessParty::~AccessParty() { AccessList::of_process().remove(*this); }

/// Never destroyed: the monitor uses it as long as the process runs.
AccessList& AccessList::of_process() noexcept {
  static_assert(std::is_trivially_destructible_v<AccessList>);
  static constinit AccessList instance;
  return instance;
}

void AccessList::add(AccessParty& party) noexcept {
  const LockGuard lock(mutex_);
  party.generation_ = generation_;
  party.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &party;
  first_ = &party;
  if (party.kind_ == AccessParty::Kind::kRequester) ++requester_count_;
}

void AccessList::remove(AccessParty& party) noexcept {
  const LockGuard lock(mutex_);
  if (party.generation_ != generation_) return;  // the list of the parent process had it
  (party.previous_ == nullptr ? first_ : party.previous_->next_) = party.next_;
  if (party.next_ != nullptr) party.next_->previous_ = party.previous_;
  if (party.kind_ == AccessParty::Kind::kRequester) --requester_count_;
}

/// As quiesce(), without the steps that only a thread of the adapter may take: it does not ask the
/// system whether a process is dead, because that may need a descriptor.
void AccessList::await(Duration patience) noexcept {
  const LockGuard lock(mutex_);
  if (first_ == nullptr) return;
  const auto start = Clock::now();
  host::Membarrier::all_processes();  // as the first one of quiesce()
  for (AccessParty* party = first_; party != nullptr; party = party->next_) {
    const Occupancy::Snapshot access = party->snapshot();
    if (access == party->passed_over_) continue;
    if (!wait_until_left(*party, access, start, patience)) party->passed_over_ = access;
  }
  host::Membarrier::all_processes();  // the stores of ended accesses are visible
}

void AccessList::await_requesters(Duration patience) noexcept {
  const LockGuard lock(mutex_);
  if (requester_count_ == 0) return;
  const auto start = Clock::now();
  host::Membarrier::all_processes();  // as the first one of quiesce()
  for (const AccessParty* party = first_; party != nullptr; party = party->next_) {
    if (party->kind_ != AccessParty::Kind::kRequester) continue;
    (void)wait_until_left(*party, party->snapshot(), start, patience);
  }
  host::Membarrier::all_processes();  // the stores of ended accesses are visible
}

void AccessList::forget_in_child() noexcept {
  new (&mutex_) Mutex;
  const LockGuard lock(mutex_);
  first_ = nullptr;
  requester_count_ = 0;
  ++generation_;
}

}  // namespace verbatim::direct
