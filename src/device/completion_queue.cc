// SPDX-License-Identifier: Apache-2.0
#include "device/completion_queue.h"

#include <algorithm>

#include "device/async_event.h"
#include "device/clock.h"

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
    count > 0 ? vain_.note_success() : vain_.note_look();
  }
  count > 0 ? adapter_->work().keep(at) : adapter_->work().serve_owed(at);
  return count;
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
