// SPDX-License-Identifier: Apache-2.0
#include "device/visitors.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "device/clock.h"
#include "device/receiving_half.h"

namespace verbatim::device {
namespace {

// How often Visitors looks whether a stray has gone.
constexpr Duration kStrayPeriod = std::chrono::milliseconds(20);
// How often await_calls() looks whether a call has ended.
constexpr timespec kCallNap{.tv_sec = 0, .tv_nsec = 1'000'000};

// The strays of all adapters: registered memory belongs to the process, not to an adapter.
std::atomic<int> g_strays{0};

}  // namespace

/// Returns the halves in which a visitor is stopped.
std::vector<VisitedHalf*> Visitors::find_stopped() {
  full_fence();  // pairs with the one in Visit::meet(): a later claim of a half sees the change
  if (!has_direct_use_.load(std::memory_order_relaxed)) return {};
  std::vector<direct::Half*> visited;
  for (VisitedHalf* owner : halves_) {
    if (owner->half().is_claimed_directly()) visited.push_back(&owner->half());
  }
  if (visited.empty()) return {};
  const auto stuck = direct::Half::await(visited, ReceivingHalf::kLeavingPatience);
  if (stuck.empty()) return {};
  std::vector<VisitedHalf*> owners;
  for (VisitedHalf* owner : halves_) {
    if (std::ranges::find(stuck, &owner->half()) == stuck.end()) continue;
    owner->note_stray();
    owners.push_back(owner);
  }
  return owners;
}

/// The analysis of locks cannot follow a guard of the caller.
///
/// A call that is announced later finds that the key does not work. So this notes the visits in
/// which a call is announced now, and waits only for these: peers may use other keys of the same
/// memory all the time.
void Visitors::await_calls(host::AdapterGuard& lock, std::uint64_t address,
                           std::uint64_t octets) VB_UNCHECKED_LOCKING {
  if (!has_direct_use_.load(std::memory_order_relaxed)) return;
  std::vector<std::pair<direct::Visitor, Occupancy::Snapshot>> calling;
  const auto note = [&](const direct::Visitor& visitor) {
    if (!visitor.exists()) return;
    const Occupancy::Snapshot visit = visitor.snapshot();  // first: a later one has a later call
    if (visitor.calls_into(address, octets)) calling.emplace_back(visitor, visit);
  };
  for (const auto& [visitor, visit] : strays_) note(visitor);
  for (VisitedHalf* owner : halves_) {
    if (owner->half().is_claimed_directly()) note(owner->half().visitor());
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
    host::Membarrier::all_processes();  // its stores before it left have arrived
    return true;
  };
  stray.on_gone = [this, last = std::move(stray.on_gone)] {
    assume_adapter_role();  // look() calls this
    --stray_count_;
    --g_strays;
    if (last) last();
  };
  ++stray_count_;
  ++g_strays;
  quarantine_.add(std::move(stray));
  strays_.emplace_back(visitor, visit);
  next_look_ = now() + kStrayPeriod;
  note_deadline_(next_look_);
}

void Visitors::look(Instant at) {
  quarantine_.look();
  std::erase_if(strays_, [](const auto& stray) { return stray.first.has_left(stray.second); });
  const bool is_over = quarantine_.is_empty() && g_strays == 0;
  next_look_ = is_over ? Instant::never() : at + kStrayPeriod;
}

/// The visitor may be stopped in a copy into memory that is registered and stays in use. So all
/// memory that it may reach by a pointer moves to other pages. Other peers that are stopped in the
/// middle of such a copy notice that, and repeat the copy (Target::counts_late()).
void Visitors::lock_out(VisitedHalf& half, RegionHomes& homes) {
  const RegionHomes::Domains domains = half.domains();
  homes.withdraw(domains);
  const auto stopped = find_stopped();
  if (std::ranges::find(stopped, &half) != stopped.end()) half.leave_requester_behind();
  homes.abandon(domains);
}

void Visitors::abandon_in_child() noexcept { forget_strays(); }

void Visitors::forget_strays() noexcept {
  quarantine_.forget();
  strays_.clear();
  g_strays -= std::exchange(stray_count_, 0);
  next_look_ = Instant::never();
}

}  // namespace verbatim::device
