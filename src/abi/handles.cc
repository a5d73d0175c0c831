// SPDX-License-Identifier: Apache-2.0
#include "abi/handles.h"

#include <pthread.h>

namespace verbatim::abi {

LiveHandles& LiveHandles::instance() {
  static auto* const handles = new LiveHandles;  // outlives every thread
  return *handles;
}

LiveHandles::LiveHandles() {
  const auto release = [] { instance().mutex_.unlock(); };
  // Without memory for the handlers a child may hang where it destroys; the parent never does.
  (void)::pthread_atfork([] { instance().mutex_.lock(); }, release, release);
}

void LiveHandles::add(const void* handle) {
  const std::lock_guard lock(mutex_);
  handles_.insert(handle);
}

bool LiveHandles::remove(const void* handle) {
  const std::lock_guard lock(mutex_);
  return handles_.erase(handle) == 1;
}

bool LiveHandles::contains(const void* handle) {
  const std::lock_guard lock(mutex_);
  return handles_.contains(handle);
}

}  // namespace verbatim::abi
