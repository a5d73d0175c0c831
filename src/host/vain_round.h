// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::host {

/// Whether the calling thread has found nothing anywhere since it polled a queue last. A thread
/// that polls several queues in turn must not sleep in the poll of one while another has
/// completions for it.
class VainRound {
 public:
  /// A poll of this thread has found something, or the thread has slept.
  static void end() noexcept { first_ = nullptr; }
  /// A poll of `queue` has found nothing. True if that was so before, and the thread's polls since,
  /// of whatever queues, have found nothing either.
  [[nodiscard]] static bool is_complete_at(const void* queue) noexcept {
    if (first_ == nullptr) {
      first_ = queue;
      return false;
    }
    return first_ == queue;
  }

 private:
  static inline constinit thread_local const void* first_ = nullptr;  // where the round began
};

}  // namespace verbatim::host
