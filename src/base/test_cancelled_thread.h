// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <cstddef>

#if VB_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

/// Nothing but tests includes this.
namespace verbatim::test {

#if VB_ADDRESS_SANITIZER

/// The stack of the thread that makes it. The address sanitizer forgets what it knows of this stack
/// when the object is destroyed.
class CancelledStack {
 public:
  CancelledStack() noexcept {
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return;
    (void)::pthread_attr_getstack(&attributes, &begin_, &octets_);
    (void)::pthread_attr_destroy(&attributes);
  }
  CancelledStack(const CancelledStack&) = delete;
  CancelledStack& operator=(const CancelledStack&) = delete;
  /// Not sanitized, because the marks lie in the frame of this function too.
  __attribute__((no_sanitize("address"))) ~CancelledStack() {
    __asan_unpoison_memory_region(begin_, octets_);
  }

 private:
  void* begin_ = nullptr;
  std::size_t octets_ = 0;
};

/// To be called first in a thread that a test cancels.
///
/// pthread_cancel(3) ends the functions of a thread without a return. The address sanitizer marks
/// the variables of a function where the function begins and removes the marks where it returns, so
/// the marks of these functions stay. The sanitizer removes them when a thread ends, but before
/// that it calls its own sigaltstack(2), which finds its argument between the marks and reports an
/// overflow. Objects of thread storage duration are destroyed after the functions have ended and
/// before the sanitizer's part of the thread's end: one of them removes the marks.
inline void expect_cancellation() noexcept { thread_local const CancelledStack stack; }

#else

inline void expect_cancellation() noexcept {}

#endif

}  // namespace verbatim::test
