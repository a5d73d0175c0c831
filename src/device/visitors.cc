// SPDX-License-Identifier: Apache-2.0
#include "device/visitors.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "device/clock.h"
#include "device/engine.h"
#include "device/queue_pair.h"

namespace verbatim::device {
namespace {

// How often those are looked at whose visits were given up.
constexpr Duration kStrayPeriod = std::chrono::milliseconds(20);
// How often a peer is looked at that is about to reach memory which is to go.
constexpr timespec kCallNap{.tv_sec = 0, .tv_nsec = 1'000'000};

// Visits that were given up, of all adapters: memory is the process's.
std::atomic<int> g_strays{0};

}  // namespace

/// Returns the queue pairs in whose halves a visitor is stopped.
std::vector<QueuePair*> Visitors::find_stopped() {
  full_fence();  // pairs with the one in Visit::meet(): a later claim of a half sees the change
  if (!has_direct_use_.load(std::memory_order_relaxed)) return {};
  std::vector<direct::Half*> visited;
  for (QueuePair* qp : queue_pairs_.present()) {
    if (!qp->half().exists() || !qp->half().is_claimed_directly()) continue;
    visited.push_back(&qp->half());
  }
  if (visited.empty()) return {};
  const auto stuck = direct::Half::await(visited, QueuePair::kLeavingPatience);
  std::vector<QueuePair*> hosts;
  if (stuck.empty()) return {};
  for (QueuePair* qp : queue_pairs_.present()) {
    if (std::ranges::find(stuck, &qp->half()) == stuck.end()) continue;
    qp->note_stray();
    hosts.push_back(qp);
  }
  return hosts;
}

/// A call that is announced later finds that the key does not work. So the visits are noted in
/// which a call is announced now, and only these are waited for: peers may use other keys of the
/// same memory all the time.
void Visitors::await_calls(std::unique_lock<host::AdapterLock>& lock, std::uint64_t address,
                           std::uint64_t octets) {
  if (!has_direct_use_.load(std::memory_order_relaxed)) return;
  std::vector<std::pair<direct::Visitor, Occupancy::Snapshot>> calling;
  const auto note = [&](const direct::Visitor& visitor) {
    if (!visitor.exists()) return;
    const Occupancy::Snapshot visit = visitor.snapshot();  // first: a later one has a later call
    if (visitor.calls_into(address, octets)) calling.emplace_back(visitor, visit);
  };
  for (const auto& [visitor, visit] : strays_) note(visitor);
  for (QueuePair* qp : queue_pairs_.present()) {
    if (qp->half().exists() && qp->half().is_claimed_directly()) note(qp->half().visitor());
  }
  const auto is_over = [&](const auto& call) {
    const auto& [visitor, visit] = call;
    visitor.look();
    return visitor.has_left(visit) || !visitor.calls_into(address, octets);
  };
  while (std::erase_if(calling, is_over), !calling.empty()) {
    lock.unlock();
    (void)::nanosleep(&kCallNap, nullptr);
    lock.lock();
  }
}

void Visitors::add_stray(const direct::Half& half, host::Quarantine::Stray stray) {
  const direct::Visitor visitor = half.visitor();
  const Occupancy::Snapshot visit = half.given_up();
  stray.has_gone = [visitor, visit] {
    visitor.look();
    if (!visitor.has_left(visit)) return false;
    host::Membarrier::all_processes();  // what it has stored before it left has arrived
    return true;
  };
  stray.on_gone = [last = std::move(stray.on_gone)] {
    --g_strays;
    if (last) last();
  };
  ++g_strays;
  quarantine_.add(std::move(stray));
  strays_.emplace_back(visitor, visit);
  next_look_ = now() + kStrayPeriod;
  engine_.note_deadline(next_look_);
}

void Visitors::look(Instant at) {
  quarantine_.look();
  std::erase_if(strays_, [](const auto& stray) { return stray.first.has_left(stray.second); });
  const bool is_over = quarantine_.is_empty() && g_strays == 0;
  next_look_ = is_over ? Instant::never() : at + kStrayPeriod;
}

/// The visitor may be stopped in a copy into memory that is registered and goes on being used. So
/// all memory that it may reach by a pointer moves away from under it. Other peers that are stopped
/// in the middle of such a copy find that out, and do it again (Target::counts_late()).
void Visitors::lock_out(QueuePair& qp, RegionHomes& homes) {
  const RegionHomes::Domains domains = qp.domains();
  homes.withdraw(domains);
  const auto hosts = find_stopped();
  if (std::ranges::find(hosts, &qp) != hosts.end()) qp.leave_requester_behind();
  homes.abandon(domains);
}

void Visitors::abandon_in_child() noexcept {
  quarantine_.forget();
  strays_.clear();
  next_look_ = Instant::never();
}

}  // namespace verbatim::device
