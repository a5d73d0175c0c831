// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <functional>

#include "base/expected.h"

namespace verbatim::host {

/// A thread of the library, for which OwnThread counts it. The signals belong to the program's
/// threads, so all of them are blocked in it.
///
/// Unlike a std::thread it may fail to start: the constructor of that class ends the process when
/// the system gives no thread, because the library has no exceptions.
///
/// Its owner serialises the calls, and calls join(), detach() or forget_in_child() before it
/// destroys or restarts it.
class LibraryThread {
 public:
  enum class Faults { kBlocked, kOpen };  // SIGSEGV and SIGBUS

  LibraryThread() noexcept = default;
  LibraryThread(const LibraryThread&) = delete;
  LibraryThread& operator=(const LibraryThread&) = delete;
  LibraryThread(LibraryThread&& other) noexcept;
  LibraryThread& operator=(LibraryThread&& other) noexcept;
  ~LibraryThread();

  /// `name` has at most 15 characters. kNoMemory when the system gives no thread, or no memory for
  /// its stack: the user has too many (RLIMIT_NPROC, pids.max) or the address space is too small
  /// (RLIMIT_AS).
  [[nodiscard]] Status start(const char* name, std::function<void()> body,
                             Faults faults = Faults::kBlocked);
  [[nodiscard]] bool exists() const noexcept { return exists_; }
  [[nodiscard]] bool is_this_thread() const noexcept;
  void join() noexcept;
  void detach() noexcept;
  /// In a forked child, for a thread that exists in the parent only.
  void forget_in_child() noexcept { exists_ = false; }

 private:
  pthread_t thread_{};
  bool exists_ = false;
};

}  // namespace verbatim::host
