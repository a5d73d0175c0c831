// SPDX-License-Identifier: Apache-2.0
#include "direct/visitor.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <new>
#include <type_traits>
#include <utility>

#include "direct/half_table.h"
#include "host/membarrier.h"
#include "host/uncancellable.h"

namespace verbatim::direct {

namespace {

// A visit normally ends within microseconds. After this time await() sleeps between two looks.
constexpr Duration kSpinning = std::chrono::milliseconds(1);
constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 100'000};

}  // namespace

// ---- One visitor ----

Visitor::Listed::Listed(std::shared_ptr<host::Peer> of, const Visiting* at) noexcept
    : peer(std::move(of)), visiting(at) {
  VisitorList::of_process().add(*this);
}

Visitor::Listed::~Listed() { VisitorList::of_process().remove(*this); }

Visitor::Visitor(std::shared_ptr<host::Peer> peer, const Visiting* visiting)
    : listed_(std::make_shared<Listed>(std::move(peer), visiting)) {}

Visitor Visitor::of(std::shared_ptr<host::Peer> peer, const std::byte* own_segment,
                    wire::QpNumber number) {
  const HalfTable halves = peer == nullptr ? HalfTable::of(own_segment) : HalfTable::of(*peer);
  const HalfRecord* record = halves.find(number);
  if (record == nullptr) return {};
  return {std::move(peer), &record->visiting};
}

void Visitor::look() const noexcept {
  if (listed_->peer != nullptr) (void)listed_->peer->look();
}

bool Visitor::calls_into(std::uint64_t address, std::uint64_t octets) const noexcept {
  if (listed_ == nullptr || (listed_->peer != nullptr && listed_->peer->has_ended())) return false;
  const auto load = [](const std::uint64_t& word) {
    return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
  };
  const std::uint64_t called = load(listed_->visiting->call_octets);
  const std::uint64_t at = load(listed_->visiting->call_at);
  return called != 0 && at < address + octets && address < at + called;
}

bool Visitor::sends_packets_to(wire::QpNumber number) const noexcept {
  if (listed_ == nullptr) return false;
  auto& packets_to = const_cast<std::uint32_t&>(listed_->visiting->packets_to);
  // pairs with choose_packets()
  return std::atomic_ref(packets_to).load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(number);
}

// ---- All visitors ----

/// Never destroyed: the monitor uses it as long as the process runs.
VisitorList& VisitorList::of_process() noexcept {
  static_assert(std::is_trivially_destructible_v<VisitorList>);
  static constinit VisitorList instance;
  return instance;
}

void VisitorList::add(Visitor::Listed& visitor) noexcept {
  const LockGuard lock(mutex_);
  visitor.generation = generation_;
  visitor.next = first_;
  if (first_ != nullptr) first_->previous = &visitor;
  first_ = &visitor;
}

void VisitorList::remove(Visitor::Listed& visitor) noexcept {
  const LockGuard lock(mutex_);
  if (visitor.generation != generation_) return;  // the list of the parent process had it
  (visitor.previous == nullptr ? first_ : visitor.previous->next) = visitor.next;
  if (visitor.next != nullptr) visitor.next->previous = visitor.previous;
}

/// As Half::await(), without the steps that only a thread of the adapter may take: it does not ask
/// the system whether a process is dead, because that may need a descriptor.
void VisitorList::await(Duration patience) noexcept {
  const LockGuard lock(mutex_);
  if (first_ == nullptr) return;
  const auto start = std::chrono::steady_clock::now();
  host::Membarrier::all_processes();  // as the first one of quiesce()
  for (Visitor::Listed* visitor = first_; visitor != nullptr; visitor = visitor->next) {
    const Occupancy::Snapshot visit = visitor->snapshot();
    if (visit == visitor->passed_over) continue;
    while (!visitor->has_left(visit)) {
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited >= patience) {
        visitor->passed_over = visit;
        break;
      }
      waited < kSpinning ? (void)::sched_yield() : host::uncancellable::nanosleep(kNap);
    }
  }
  host::Membarrier::all_processes();  // the stores of ended visits are visible
}

void VisitorList::forget_in_child() noexcept {
  new (&mutex_) Mutex;
  const LockGuard lock(mutex_);
  first_ = nullptr;
  ++generation_;
}

}  // namespace verbatim::direct
