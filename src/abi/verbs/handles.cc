// SPDX-License-Identifier: Apache-2.0
#include "abi/verbs/handles.h"

#include "base/process_wide.h"
#include "device/process.h"

namespace verbatim::abi {

LiveHandles& LiveHandles::instance() {
  return process_wide([] { return new LiveHandles; });
}

namespace {

const device::TakesPartInForks kInForks(
    {.rank = device::ForkRank::kHandles,
     .prepare = [] { LiveHandles::instance().mutex().lock_for_fork(); },
     .parent = [] { LiveHandles::instance().mutex().unlock_after_fork(); },
     .child = [] { LiveHandles::instance().mutex().unlock_after_fork(); },
     .forget =
         [] {
           device::renew_unless_held(LiveHandles::instance(), LiveHandles::instance().mutex());
         }});

}  // namespace

void LiveHandles::add(const void* handle) {
  const LockGuard lock(mutex_);
  handles_.insert(handle);
}

bool LiveHandles::remove(const void* handle) {
  const LockGuard lock(mutex_);
  return handles_.erase(handle) == 1;
}

bool LiveHandles::contains(const void* handle) {
  const LockGuard lock(mutex_);
  return handles_.contains(handle);
}

}  // namespace verbatim::abi
