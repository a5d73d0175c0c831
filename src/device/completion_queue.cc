// SPDX-License-Identifier: Apache-2.0
#include "device/completion_queue.h"

#include <algorithm>

#include "device/async_event.h"
#include "device/clock.h"
#include "host/yielding.h"

namespace verbatim::device {
namespace {

// How many lanes a new completion queue has room for.
constexpr std::size_t kFirstPlaces = 16;

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
  (void)adapter_->work().receive_for_caller(at);
  std::size_t count = 0;
  {
    const std::lock_guard lock(lock_);
    count = queue_.poll(into);
    if (keeps_timestamps_) stamp(into.first(count));
    turns_.note_look(at, count > 0);
    if (count > 0) {
      vain_.note_success();
      turns_.note_success();
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
  if (!is_rest_better() || !rest()) vain_.give_way();
  turns_.note_rest();
}

void CompletionQueue::take_turn() noexcept {
  const Instant begin = now();
  if (!turns_.wants_yield(begin)) return;
  constexpr int kCalls = 4;
  const bool was_taken = host::yield_processor(kCalls);
  const Instant end = now();
  turns_.note_yield(begin, end);
  if (was_taken) adapter_->note_spinners(end);
}

/// False when another thread rests, or none can. Completions are produced with the adapter's lock
/// held: those of before that lock is released here are found, and for later ones announce() wakes
/// the thread.
bool CompletionQueue::rest() noexcept {
  PollerRest& rest = adapter_->rest();
  const Instant begin = now();
  if (!rest.begin(begin)) return false;
  is_rested_for_.store(true, std::memory_order_relaxed);
  bool has_completions = false;
  bool has_packets = false;
  {
    const host::AdapterGuard progress(adapter_->mutex());
    adapter_->note_rest(begin);  // with the lock: the engine computes with it when it wakes up
    const std::lock_guard lock(lock_);
    has_completions = queue_.waiting_count() > 0;
    has_packets = !adapter_->link().prepare_to_wait();
  }
  const bool was_woken = has_completions || has_packets || rest.wait(host::RestChoice::kLimit);
  is_rested_for_.store(false, std::memory_order_relaxed);
  const Instant at = now();
  if (was_woken && !has_completions) {
    const host::AdapterGuard progress(adapter_->mutex());
    take_what_has_woken(at);
    adapter_->work().keep(at);
  }
  rest.end(at);
  const std::lock_guard lock(lock_);
  rests_.note_rest(was_woken);
  vain_.note_rest();
  return true;
}

/// The end of a rest wakes the engine if packets are left. A descriptor of a link that stays
/// readable until the link is about to wait would wake it each time.
void CompletionQueue::take_what_has_woken(Instant at) noexcept {
  constexpr int kBursts = 4;  // what is left then is found by the next poll
  for (int burst = 0; burst < kBursts; ++burst) {
    (void)adapter_->work().receive(AdapterProgress::Look::kAtAllAddresses, at);
    if (adapter_->link().prepare_to_wait()) return;
  }
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
  if (is_rested_for_.load(std::memory_order_relaxed)) adapter_->rest().wake();
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
