// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "base/adapter_role.h"
#include "host/queue_lock.h"

namespace verbatim::host {

/// Holds the lock of an adapter while it lives, and with it the right to use the adapter's parts.
/// unlock() and lock() release and take it in between.
class VB_SCOPED_CAPABILITY AdapterGuard {
 public:
  explicit AdapterGuard(AdapterLock& lock) noexcept VB_ACQUIRE(adapter_role) : lock_(lock) {
    lock_.lock();
    is_held_ = true;
  }
  /// The thread holds it already.
  AdapterGuard(AdapterLock& lock, std::adopt_lock_t) noexcept VB_ACQUIRE(adapter_role)
      : lock_(lock), is_held_(true) {}
  AdapterGuard(const AdapterGuard&) = delete;
  AdapterGuard& operator=(const AdapterGuard&) = delete;
  ~AdapterGuard() VB_RELEASE() {
    if (is_held_) lock_.unlock();
  }

  void unlock() noexcept VB_RELEASE() {
    lock_.unlock();
    is_held_ = false;
  }
  void lock() noexcept VB_ACQUIRE() {
    lock_.lock();
    is_held_ = true;
  }
  [[nodiscard]] bool is_held() const noexcept { return is_held_; }

 private:
  AdapterLock& lock_;
  bool is_held_ = false;
};

}  // namespace verbatim::host
