// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace verbatim {

/// While one exists, pthread_cancel(3) does not end the calling thread; the request to end it stays
/// pending. A thread that is cancelled in the middle of a call leaves locks taken, and one that is
/// cancelled inside a noexcept function ends the process. So code that makes system calls with a
/// lock held, or with data half changed, creates one first. Costs two calls of the C library, some
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
