// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/adapter_role.h"
#include "device/adapter.h"
#include "device/event_pipe.h"
#include "transport/queues/shared_receive_ring.h"

namespace verbatim::device {

/// A shared receive queue of a context.
class SharedReceiveQueue {
 public:
  using Limits = transport::SharedReceiveRing::Limits;

  [[nodiscard]] static Expected<std::unique_ptr<SharedReceiveQueue>> create(
      std::shared_ptr<Adapter> adapter, memory::DomainId domain, const Limits& limits,
      EventPipe* async, std::uint64_t user_tag);
  SharedReceiveQueue(std::shared_ptr<Adapter> adapter, std::span<std::byte> block,
                     memory::DomainId domain, const Limits& limits);
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;
  ~SharedReceiveQueue();

  [[nodiscard]] Status post(const transport::ReceiveRequest& request) noexcept;
  [[nodiscard]] Status arm_limit(std::uint32_t limit) noexcept;
  [[nodiscard]] std::uint32_t limit() noexcept;
  [[nodiscard]] std::uint32_t depth() const noexcept { return queue_.depth(); }
  [[nodiscard]] std::uint32_t sge_limit() const noexcept { return queue_.sge_limit(); }
  [[nodiscard]] wire::SrqNumber number() const noexcept { return number_; }
  /// Whether a queue pair uses it.
  [[nodiscard]] bool has_users() const noexcept {
    const host::AdapterGuard lock(adapter_->mutex());
    return users_ > 0;
  }

  // For queue pairs, with the adapter's lock held.
  [[nodiscard]] transport::SharedReceiveRing view() const noexcept { return queue_; }
  /// Where it lies in the segment.
  [[nodiscard]] const std::byte* block() const noexcept { return block_.data(); }
  void announce() noexcept VB_REQUIRES(adapter_role);
  void add_user() noexcept VB_REQUIRES(adapter_role) { ++users_; }
  void drop_user() noexcept VB_REQUIRES(adapter_role) { --users_; }

 private:
  std::shared_ptr<Adapter> adapter_;
  std::span<std::byte> block_;
  memory::DomainId domain_;
  transport::SharedReceiveRing queue_;
  EventPipe* async_ = nullptr;
  std::uint64_t user_tag_ = 0;
  wire::SrqNumber number_{};
  std::uint32_t users_ VB_GUARDED_BY(adapter_role) = 0;
};

}  // namespace verbatim::device
