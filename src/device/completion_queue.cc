// SPDX-License-Identifier: Apache-2.0
#include "device/completion_queue.h"

#include "device/async_event.h"
#include "device/clock.h"

namespace verbatim::device {

Expected<std::unique_ptr<CompletionQueue>> CompletionQueue::create(std::shared_ptr<Adapter> adapter,
                                                                   std::uint32_t capacity,
                                                                   CompletionChannel* channel,
                                                                   EventPipe* async,
                                                                   std::uint64_t user_tag) {
  if (capacity == 0 || capacity > kMaxCompletions) return Errc::kInvalidArgument;
  std::span<std::byte> block;
  {
    // A fork holds this lock, so the child finds the segment's own free as well.
    const std::lock_guard lock(adapter->mutex());
    block = adapter->segment().take(transport::CompletionBoard::octets_for(kLaneLimit));
  }
  if (block.empty()) return Errc::kNoMemory;
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
      lanes_(kLaneLimit),
      queue_(transport::CompletionBoard::create(block, kLaneLimit), lanes_, capacity) {}

CompletionQueue::~CompletionQueue() {
  const std::lock_guard lock(adapter_->mutex());
  adapter_->segment().give_back(block_);
}

std::size_t CompletionQueue::poll(std::span<transport::Completion> into) noexcept {
  const std::lock_guard lock(adapter_->mutex());
  if (const std::size_t count = queue_.poll(into)) return count;
  adapter_->progress_for_caller();
  return queue_.poll(into);
}

void CompletionQueue::arm(transport::Arming what) noexcept {
  const std::lock_guard lock(adapter_->mutex());
  queue_.arm(what);
}

Status CompletionQueue::resize(std::uint32_t capacity) noexcept {
  const std::lock_guard lock(adapter_->mutex());
  if (capacity > kMaxCompletions) return Errc::kInvalidArgument;
  return queue_.resize(capacity);
}

Expected<transport::CompletionPort> CompletionQueue::attach(
    transport::CompletionLane lane) noexcept {
  auto port = queue_.attach(lane);
  if (!port) return port.error();
  ++users_;
  lane_places_ += lane.depth();
  return *port;
}

void CompletionQueue::detach(const transport::CompletionPort& port, std::uint32_t depth) noexcept {
  queue_.detach(port);
  --users_;
  lane_places_ -= depth;
}

bool CompletionQueue::announce() noexcept {
  if (keeps_timestamps_) queue_.stamp(now());
  while (queue_.take_event()) {
    if (channel_ != nullptr) channel_->write({.kind = 0, .padding = 0, .subject = user_tag_});
  }
  if (overrun_ || lane_places_ <= queue_.capacity() || !queue_.is_overrun()) return overrun_;
  overrun_ = true;
  report(async_, AsyncEvent::kCqError, user_tag_);
  return true;
}

}  // namespace verbatim::device
