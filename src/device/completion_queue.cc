// SPDX-License-Identifier: Apache-2.0
#include "device/completion_queue.h"

#include <algorithm>

#include "base/futex.h"
#include "device/async_event.h"
#include "device/clock.h"
#include "host/yielding.h"

namespace verbatim::device {
namespace {

// How many lanes a new completion queue has room for.
constexpr std::size_t kFirstPlaces = 16;
// How long a thread rests at most. The engine calls a rest off earlier. A timer that expires before
// the kernel's next tick would cost more than the rest.
constexpr Duration kRestLimit = std::chrono::milliseconds(10);

}  // namespace

Expected<std::unique_ptr<CompletionQueue>> CompletionQueue::create(std::shared_ptr<Adapter> adapter,
                                                                   std::uint32_t capacity,
                                                                   CompletionChannel* channel,
                                                                   EventPipe* async,
                                                                   std::uint64_t user_tag) {
  if (capacity == 0 || capacity > kMaxCompletions) return Errc::kInvalidArgument;
  std::span<std::byte> block;
  {
    // A fork takes this lock, so in the child the lock of the segment is free as well.
    const host::AdapterGuard lock(adapter->mutex());
    if (auto taken = adapter->quotas().completion_queues.take(); !taken) return taken.error();
    block = adapter->segment().take(transport::CompletionBoard::octets_for(kHintCount));
    if (block.empty()) {
      adapter->quotas().completion_queues.give_back();
      return Errc::kNoMemory;
    }
  }
  auto queue = std::make_unique<CompletionQueue>(std::move(adapter), block, capacity);
  queue->channel_ = channel;
  queue->async_ = async;
  queue->user_tag_ = user_tag;
  return queue;
}

CompletionQueue::CompletionQueue(std::shared_ptr<Adapter> adapter, std::span<std::byte> block,
                                 std::uint32_t capacity)
    : adapter_(std::move(adapter)),
      block_(block),
      lanes_(kFirstPlaces),
      queue_(transport::CompletionBoard::create(block, kHintCount), lanes_, capacity) {
  const host::AdapterGuard lock(adapter_->mutex());
  ++adapter_->layout().adapter().completion_queues;
}

CompletionQueue::~CompletionQueue() {
  const host::AdapterGuard lock(adapter_->mutex());
  --adapter_->layout().adapter().completion_queues;
  adapter_->quotas().completion_queues.give_back();
  adapter_->visitors().give_back(block_);
}

std::size_t CompletionQueue::poll_with_progress(std::span<transport::Completion> into) noexcept {
  const host::AdapterGuard progress(adapter_->mutex());
  const Instant at = now();
  const bool has_arrived = adapter_->work().receive_for_caller(at);
  std::size_t count = 0;
  {
    const std::lock_guard lock(lock_);
    count = queue_.poll(into);
    if (keeps_timestamps_) stamp(into.first(count));
    turns_.note_look(at, count > 0);
    if (count > 0) {
      vain_.note_success();
      turns_.note_success();
      host::VainRound::end();
    } else if (has_arrived) {
      vain_.note_success();  // the rest of a message may be there already
    } else {
      vain_.note_look();
    }
  }
  count > 0 ? adapter_->work().keep(at) : adapter_->work().serve_owed(at);
  return count;
}

/// Packets wake a resting thread. What peers do directly does not, so a thread yields if work
/// queues of this queue are used directly.
bool CompletionQueue::is_rest_better() noexcept {
  if (direct_users_.load(std::memory_order_relaxed) != 0) return false;
  if (!adapter_->work().has_packet_users() || adapter_->work().has_work()) return false;
  const std::lock_guard lock(lock_);
  return rests_.is_rest(gauge_.is_crowded(now()));
}

void CompletionQueue::give_way() noexcept {
  if (vain_.is_between_rests() && !host::VainRound::is_complete_at(this)) return;
  if (!is_rest_better() || !rest()) yield();
}

void CompletionQueue::yield() noexcept {
  // A thread that waits elsewhere may not look again for long.
  const bool looks = adapter_->work().has_packet_users() && !may_be_away_between();
  const Instant begin = now();
  if (looks) adapter_->note_yield(begin);
  vain_.give_way();
  const Instant end = now();
  if (looks) adapter_->note_return(end);
  const std::lock_guard lock(lock_);
  gauge_.note_yield(end - begin);
  turns_.note_rest();
}

void CompletionQueue::take_turn() noexcept {
  const Instant begin = now();
  if (!turns_.wants_yield(begin)) return;
  constexpr int kCalls = 4;
  const bool was_taken = host::yield_processor(kCalls);
  const Instant end = now();
  {
    const std::lock_guard lock(lock_);
    turns_.note_yield(begin, end);
  }
  if (was_taken) adapter_->note_spinners(end);
}

/// One thread of the adapter waits for packets. Others sleep until that thread, or the engine, has
/// taken a completion of theirs out of the packets. False when none of both can be.
bool CompletionQueue::rest() noexcept {
  if (sleeper_.load(std::memory_order_relaxed) == kBesideAnother) return false;
  const Instant begin = now();
  if (!adapter_->rest().begin(begin)) return rest_beside_another(begin);
  rest_at_the_sockets(begin);
  return true;
}

/// Completions are produced with the adapter's lock held: those of before that lock is released
/// here are found, and for later ones announce() wakes the thread.
void CompletionQueue::rest_at_the_sockets(Instant begin) noexcept {
  PollerRest& rest = adapter_->rest();
  bool has_completions = false;
  bool has_packets = false;
  {
    const host::AdapterGuard progress(adapter_->mutex());
    adapter_->work().serve_owed(begin);
    adapter_->note_rest(begin);
    sleeper_.store(kAtTheSockets, std::memory_order_relaxed);
    const std::lock_guard lock(lock_);
    has_completions = queue_.waiting_count() > 0;
    has_packets = !adapter_->link().prepare_to_wait();
  }
  const bool was_woken = has_completions || has_packets || rest.wait(kRestLimit);
  const Instant at = now();
  sleeper_.store(kNone, std::memory_order_relaxed);
  if (was_woken && !has_completions) take_packets(at);
  rest.end(at);
  if (may_be_away_between()) adapter_->end_rests();
  note_rest(begin, at, was_woken);
}

/// Until this queue has completions, or all packets are taken.
void CompletionQueue::take_packets(Instant at) noexcept {
  using Look = AdapterProgress::Look;
  const host::AdapterGuard progress(adapter_->mutex());
  AdapterProgress& work = adapter_->work();
  bool has_arrived = work.receive(Look::kAtTheLastAddress, at);
  if (!has_arrived) has_arrived = work.receive(Look::kAtAllAddresses, at);
  while (has_arrived && !has_completions()) has_arrived = work.receive(Look::kAtTheLastAddress, at);
  // A descriptor that stays readable until its link is about to wait would wake the engine. After
  // that it announces only packets that come later, so those that are there are taken.
  if (!has_arrived && !adapter_->link().prepare_to_wait()) {
    (void)work.receive(Look::kAtAllAddresses, at);
  }
  work.keep(at);
  adapter_->note_return(at);
}

bool CompletionQueue::has_completions() noexcept {
  const std::lock_guard lock(lock_);
  return queue_.waiting_count() > 0;
}

bool CompletionQueue::may_be_away_between() noexcept {
  const std::lock_guard lock(lock_);
  return turns_.may_be_away_between();
}

/// The other thread may go, and not come back: then the engine takes the packets, after some
/// milliseconds. Two threads that poll one queue do not both sleep, since one is woken.
bool CompletionQueue::rest_beside_another(Instant begin) noexcept {
  if (!adapter_->rest().is_resting()) return false;
  bool has_completions = false;
  {
    const host::AdapterGuard progress(adapter_->mutex());
    if (sleeper_.load(std::memory_order_relaxed) != kNone) return false;
    adapter_->work().serve_owed(begin);
    sleeper_.store(kBesideAnother, std::memory_order_relaxed);
    const std::lock_guard lock(lock_);
    has_completions = queue_.waiting_count() > 0;
  }
  if (!has_completions) futex::wait(sleeper_, kBesideAnother, kRestLimit);
  std::uint32_t still = kBesideAnother;
  const bool was_woken = !sleeper_.compare_exchange_strong(still, kNone) || has_completions;
  note_rest(begin, now(), was_woken);
  return true;
}

void CompletionQueue::note_rest(Instant begin, Instant end, bool was_woken) noexcept {
  host::VainRound::end();
  const std::lock_guard lock(lock_);
  turns_.note_sleep(begin, end, queue_.waiting_count() > 0);
  rests_.note_rest(was_woken);
  vain_.note_rest(was_woken);
}

void CompletionQueue::wake_sleeper() noexcept {
  if (sleeper_.load(std::memory_order_relaxed) == kAtTheSockets) return adapter_->rest().wake();
  sleeper_.store(kNone, std::memory_order_relaxed);
  futex::wake_all(sleeper_);
}

void CompletionQueue::arm(transport::Arming what) noexcept {
  const std::lock_guard lock(lock_);
  queue_.arm(what, Visitors::arming_barrier);
}

Status CompletionQueue::resize(std::uint32_t capacity) noexcept {
  const host::AdapterGuard progress(adapter_->mutex());
  const std::lock_guard lock(lock_);
  if (capacity > kMaxCompletions) return Errc::kInvalidArgument;
  if (capacity > queue_.capacity() && pinned_ > 0) return Errc::kNotSupported;
  auto resized = queue_.resize(capacity);
  note_places(0);
  return resized;
}

Expected<transport::CompletionPort> CompletionQueue::attach(
    transport::CompletionLane lane) noexcept {
  const std::lock_guard lock(lock_);
  if (users_ == lanes_.size() && users_ < kLaneLimit) {
    lanes_.resize(std::min<std::size_t>(2 * lanes_.size(), kLaneLimit));
    queue_.use_places(lanes_);
  }
  auto port = queue_.attach(lane);
  if (!port) return port.error();
  ++users_;
  note_places(lane.depth());
  return *port;
}

void CompletionQueue::detach(const transport::CompletionPort& port) noexcept {
  const std::lock_guard lock(lock_);
  queue_.detach(port);
  --users_;
  note_places(-std::int64_t{port.lane().depth()});
}

void CompletionQueue::discard(const transport::CompletionPort& port) noexcept {
  const std::lock_guard lock(lock_);
  queue_.discard(port);
}

transport::CompletionPort CompletionQueue::move_lane(const transport::CompletionPort& port,
                                                     std::span<std::byte> block) noexcept {
  const std::lock_guard lock(lock_);
  return queue_.replace(port, port.lane().move_to(block));
}

void CompletionQueue::note_places(std::int64_t change) noexcept {
  lane_places_ += static_cast<std::uint64_t>(change);
  overrun_beyond_.store(lane_places_ > queue_.capacity() ? queue_.capacity() : kNeverOverrun,
                        std::memory_order_relaxed);
}

void CompletionQueue::stamp(std::span<transport::Completion> collected) noexcept {
  const std::uint64_t at = transport::stamp_of(now());
  for (transport::Completion& completion : collected) {
    if (completion.timestamp == 0) completion.timestamp = at;
  }
}

bool CompletionQueue::announce() noexcept {
  if (sleeper_.load(std::memory_order_relaxed) != kNone) wake_sleeper();
  if (keeps_timestamps_) {
    const std::lock_guard lock(lock_);
    queue_.stamp(now());
  }
  while (queue_.take_event()) {
    if (channel_ != nullptr) channel_->write({.kind = 0, .subject = user_tag_}, unread_events_);
  }
  if (overrun_ || !finds_overrun()) return overrun_;
  overrun_ = true;
  report(async_, AsyncEvent::kCqError, user_tag_);
  return true;
}

/// Counting reads every lane, so with many lanes it happens less often: the cost of an announcement
/// does not grow with the number of lanes. Completions stay in the lanes, so none is lost
/// meanwhile.
bool CompletionQueue::finds_overrun() noexcept {
  constexpr std::uint32_t kLanesPerLook = 2;
  if (lane_places_ <= queue_.capacity()) return false;
  if (++unchecked_ * kLanesPerLook < users_) return false;
  unchecked_ = 0;
  const std::lock_guard lock(lock_);
  return queue_.is_overrun();
}

}  // namespace verbatim::device
