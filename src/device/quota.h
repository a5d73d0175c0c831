// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/adapter_role.h"
#include "base/assert.h"
#include "base/expected.h"
#include "device/limits.h"

namespace verbatim::device {

/// How many objects of one kind a device has now, and how many it may have. Used with the adapter's
/// lock held.
class Quota {
 public:
  explicit constexpr Quota(std::uint32_t limit) noexcept : limit_(limit) {}

  /// One object more. kNoMemory when the device has as many as it says that it can have.
  [[nodiscard]] Status take() noexcept VB_REQUIRES(adapter_role) {
    if (taken_ == limit_) return Errc::kNoMemory;
    ++taken_;
    return Ok{};
  }
  /// One object less.
  void give_back() noexcept VB_REQUIRES(adapter_role) {
    VB_ASSERT(taken_ > 0);
    --taken_;
  }

 private:
  std::uint32_t limit_;
  std::uint32_t taken_ VB_GUARDED_BY(adapter_role) = 0;  // at most limit_
};

/// The kinds of objects that have no table which limits them. Queue pairs and keys are limited by
/// their tables.
struct Quotas {
  Quota completion_queues{kMaxCompletionQueues};
  Quota shared_queues{kMaxSharedQueues};
  Quota address_handles{kMaxAddressHandles};
};

}  // namespace verbatim::device
