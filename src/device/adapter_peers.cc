// SPDX-License-Identifier: Apache-2.0
// What an adapter has to do with the other processes of this host; the rest is in adapter.cc.
#include <algorithm>
#include <atomic>
#include <ctime>

#include "device/adapter.h"
#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/queue_pair.h"
#include "direct/errand.h"

namespace verbatim::device {
namespace {

// How often those are looked at whose visits were given up.
constexpr Duration kStrayPeriod = std::chrono::milliseconds(20);
// How often a peer is looked at that is about to reach memory which is to go.
constexpr timespec kCallNap{.tv_sec = 0, .tv_nsec = 1'000'000};

// Visits that were given up, of all adapters: memory is the process's.
std::atomic<int> g_strays{0};

}  // namespace

bool Adapter::is_own_address(const wire::Gid& gid) const noexcept {
  const std::lock_guard lock(port_mutex_);
  return std::any_of(port_.gids.begin(), port_.gids.end(),
                     [&](const GidEntry& entry) { return entry.gid == gid; });
}

direct::Target::Own Adapter::as_target() const noexcept {
  return {.segment = std::bit_cast<std::byte*>(&layout_.header()),
          .bell = &engine_->bell(),
          .has_peer_calls = has_peer_calls_};
}

// ---- Who is stopped in our halves ----

/// Returns those in whose halves somebody is stopped.
std::vector<QueuePair*> Adapter::await_visitors() {
  full_fence();  // pairs with the one in Visit::meet(): who claims a half later sees the change
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

bool Adapter::wait_for_peers() { return await_visitors().empty(); }

/// A call that is announced later finds that the key does not work. So the visits are noted in
/// which a call is announced now, and only these are waited for: peers may use other keys of the
/// same memory all the time.
void Adapter::wait_for_calls(std::unique_lock<Lock>& lock, std::uint64_t address,
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

void Adapter::add_stray(const direct::Half& half, host::Quarantine::Stray stray) {
  const direct::Visitor visitor = half.visitor();
  const Occupancy::Snapshot visit = half.given_up();
  stray.has_gone = [visitor, visit] {
    visitor.look();
    if (!visitor.has_left(visit)) return false;
    host::Membarrier::all_processes();  // what it has stored before it left has arrived
    return true;
  };
  stray.farewell = [last = std::move(stray.farewell)] {
    --g_strays;
    if (last) last();
  };
  ++g_strays;
  quarantine_.add(std::move(stray));
  strays_.emplace_back(visitor, visit);
  next_look_ = now() + kStrayPeriod;
  engine_->note_deadline(next_look_);
}

void Adapter::look_after_strays(Instant at) {
  quarantine_.look();
  std::erase_if(strays_, [](const auto& stray) { return stray.first.has_left(stray.second); });
  const bool is_over = quarantine_.is_empty() && g_strays == 0;
  next_look_ = is_over ? Instant::never() : at + kStrayPeriod;
}

/// What it is stopped in may be a copy into memory that is registered and goes on being used. So
/// all memory that it may reach by a pointer moves away from under it. Other peers that are stopped
/// in the middle of such a copy find that out, and do it again (Target::counts_late()).
void Adapter::lock_out(QueuePair& qp) {
  const RegionHomes::Domains domains = qp.domains();
  homes_->withdraw(domains);
  const auto hosts = await_visitors();
  if (std::ranges::find(hosts, &qp) != hosts.end()) qp.leave_requester_behind();
  homes_->abandon(domains);
}

// ---- What they want ----

void Adapter::take_bells() noexcept {
  if (abandoned_) return;
  layout_.bells().take([&](std::uint32_t index) {
    QueuePair* qp = queue_pairs_.at(index);
    if (qp == nullptr) return;
    {
      const auto held = qp->hold();
      qp->handle_bell();
    }
    list_ready(*qp);
  });
}

/// Another process of this host wants something done in our memory, or has done it for us.
void Adapter::handle_saying(std::span<std::byte> saying, int connection) {
  direct::Errand errand;
  if (!errand.parse(saying)) return;
  const auto octets = saying.subspan(sizeof errand);
  const std::lock_guard lock(mutex_);
  if (errand.kind == direct::Errand::Kind::kReply) {
    QueuePair* qp = queue_pairs_.find(errand.requester);
    if (qp == nullptr) return;
    {
      const auto held = qp->hold();
      qp->handle_reply(errand, octets);
    }
    serve(*qp);
    return;
  }
  std::array<std::byte, direct::Errand::kOctetsMax> bounce;
  std::ranges::copy(octets, bounce.begin());
  direct::Target target(nullptr, as_target(),
                        {.number = errand.requester, .dest_qp = errand.target}, &now);
  errand.answer = direct::Answer::kSilence;
  void* fault_at = nullptr;
  if (slot_of(errand.target) == slot_.number() && target.stand_in() &&
      !guarded([&] { direct::execute(errand, bounce, target); }, &fault_at)) {
    ++layout_.adapter().counters.memory_faults;
    const direct::Answer answer = target.handle_fault(fault_at);  // our queue pair fails, too
    target.visit().leave();
    const bool was_there = answer != direct::Answer::kDone;
    errand.answer = was_there ? answer : direct::Answer::kOperationError;
  }
  errand.kind = direct::Errand::Kind::kReply;
  // A requester that does not listen has itself to blame; it notices by its timeout.
  (void)host::say(connection, std::as_bytes(std::span(&errand, 1)),
                  std::span(bounce).first(errand.payload_octets()));
}

void Adapter::handle_news(const HostPeers::News& news) noexcept {
  queue_pairs_.for_each([&](QueuePair& qp) {
    if (news.has_deaths && qp.way() != QueuePair::Way::kPackets) list_ready(qp);
  });
  if (!quarantine_.is_empty()) look_after_strays(now());
}

/// A caller need not wait for a bell to go on with what waits for a receive.
void Adapter::look_after_waiting() noexcept {
  if (waiting_.empty()) return;
  std::erase_if(waiting_, [&](QueuePair* qp) {
    const auto held = qp->hold();
    if (qp->waits_for_receive() && !qp->finds_receive()) return false;
    list_ready(*qp);
    return true;
  });
}

}  // namespace verbatim::device
