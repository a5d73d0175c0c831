// SPDX-License-Identifier: Apache-2.0
#include "device/shared_receive_queue.h"

#include "device/async_event.h"
#include "device/limits.h"

namespace verbatim::device {

Expected<std::unique_ptr<SharedReceiveQueue>> SharedReceiveQueue::create(
    std::shared_ptr<Adapter> adapter, memory::DomainId domain, const Limits& limits,
    EventPipe* async, std::uint64_t user_tag) {
  if (limits.depth == 0 || limits.depth > kMaxQueueDepth || limits.sge_limit > kMaxSges) {
    return Errc::kInvalidArgument;
  }
  const host::AdapterGuard lock(adapter->mutex());
  if (auto taken = adapter->quotas().shared_queues.take(); !taken) return taken.error();
  if (auto added = adapter->domains().add_user(domain); !added) {
    adapter->quotas().shared_queues.give_back();
    return added.error();
  }
  const auto block = adapter->segment().take(transport::SharedReceiveRing::octets_for(limits));
  if (block.empty()) {
    adapter->domains().drop_user(domain);
    adapter->quotas().shared_queues.give_back();
    return Errc::kNoMemory;
  }
  const auto number = adapter->queue_pairs().next_shared_number();
  auto queue = std::make_unique<SharedReceiveQueue>(std::move(adapter), block, domain, limits);
  queue->async_ = async;
  queue->user_tag_ = user_tag;
  queue->number_ = number;
  return queue;
}

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<Adapter> adapter, std::span<std::byte> block,
                                       memory::DomainId domain, const Limits& limits)
    : adapter_(std::move(adapter)),
      block_(block),
      domain_(domain),
      queue_(transport::SharedReceiveRing::create(block, domain, limits)) {}

SharedReceiveQueue::~SharedReceiveQueue() {
  const host::AdapterGuard lock(adapter_->mutex());
  adapter_->domains().drop_user(domain_);
  adapter_->quotas().shared_queues.give_back();
  adapter_->visitors().give_back(block_);
}

Status SharedReceiveQueue::post(const transport::ReceiveRequest& request) noexcept {
  const host::AdapterGuard lock(adapter_->mutex());
  return queue_.post(request);
}

Status SharedReceiveQueue::arm_limit(std::uint32_t limit) noexcept {
  const host::AdapterGuard lock(adapter_->mutex());
  auto armed = queue_.arm_limit(limit, Visitors::arming_barrier);
  announce();
  return armed;
}

std::uint32_t SharedReceiveQueue::limit() noexcept {
  const host::AdapterGuard lock(adapter_->mutex());
  return queue_.limit();
}

void SharedReceiveQueue::announce() noexcept {
  if (queue_.take_limit_event()) report(async_, AsyncEvent::kSrqLimitReached, user_tag_);
}

}  // namespace verbatim::device
