// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/fence.h"

namespace verbatim::host {

/// membarrier(2): a full fence in other threads, for which the caller pays. The process registers
/// at the first question, or when enlist() is called. A forked child stays registered; exec(2) ends
/// the registration.
///
/// Any thread may call anything here.
class Membarrier {
 public:
  /// Registers for everything, now. While the process has one thread this is immediate. Later the
  /// kernel waits for all processors to change their context, ten milliseconds and more. That must
  /// not happen to a thread that holds a lock or has packets to answer.
  static void enlist() noexcept;

  /// kExpedited: this process is registered for all_processes(), and may call it. A process
  /// publishes this value in its segment. kFenced, the value of zeroed memory, is always right.
  [[nodiscard]] static Fencing global() noexcept;
  /// The same for own_threads().
  [[nodiscard]] static Fencing own() noexcept;

  /// A full fence in this thread and in every running thread of every registered process. Where the
  /// system call does not exist, only in this thread: then global() is kFenced in every process.
  static void all_processes() noexcept;
  /// A full fence in this thread and in every running thread of this process. Only if own() is
  /// kExpedited.
  static void own_threads() noexcept;
};

}  // namespace verbatim::host
