// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace verbatim {

/// While one exists, pthread_cancel(3) does not end the calling thread; a request to end it stays
/// pending. A thread that ends in the middle of a call leaves locks taken, and one that ends inside
/// of a function that is noexcept ends the process. So whatever calls the system with a lock held,
/// or with something half done, does it while one of these exists. Two calls of the C library, some
/// nanoseconds each.
class Uncancelled {
 public:
  Uncancelled() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;
  ~Uncancelled() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace verbatim
