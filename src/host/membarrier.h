// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/fence.h"

namespace verbatim::host {

/// membarrier(2): a full fence in other threads, which the side that seldom needs one pays for. The
/// process registers at the first question, or when it is told to. A forked child stays registered;
/// exec ends it.
///
/// Any thread may call anything here.
class Membarrier {
 public:
  /// Registers for everything, now. While the process has one thread that is done at once; later
  /// the system waits for all processors to have done something else, ten milliseconds and more,
  /// which must not happen to a thread that holds a lock or has packets to answer.
  static void enlist() noexcept;

  /// kExpedited: this process is registered for all_processes(), and may call it. What a process
  /// says in its slot; kFenced is right for one that says nothing.
  [[nodiscard]] static Fencing global() noexcept;
  /// The same for own_threads().
  [[nodiscard]] static Fencing own() noexcept;

  /// A full fence here and in every running thread of every process that is registered. Without
  /// the system call only here: right if nobody was told that global() is kExpedited.
  static void all_processes() noexcept;
  /// A full fence here and in every running thread of this process. Only if own() is kExpedited.
  static void own_threads() noexcept;
};

}  // namespace verbatim::host
