// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/fork_mutex.h"
#include "base/mutex.h"
#include "base/time.h"
#include "connect/route.h"
#include "device/neighbour_table.h"

namespace verbatim::connect {

class Id;

/// A request to the system to resolve one neighbour.
class NeighbourQuestion {
 public:
  NeighbourQuestion() noexcept = default;
  NeighbourQuestion(const NeighbourQuestion&) = delete;
  NeighbourQuestion& operator=(const NeighbourQuestion&) = delete;
  virtual ~NeighbourQuestion() = default;

  [[nodiscard]] virtual device::Neighbour answer() = 0;
  /// Asks again after the neighbour did not answer.
  virtual void repeat() = 0;
};

/// The ids that wait for neighbours to be resolved. It calls Id::finish_resolving() when the
/// neighbour of an id is known, or with kTimedOut at the deadline of the id. An address that has no
/// entry in the neighbour table, even after the question, is behind a router and counts as known.
///
/// It starts no thread and reads no clock: the owner calls look() as long as it returns true.
/// Thread: any. Its lock is held during Id::finish_resolving(), so the id is not used after
/// remove().
class NeighbourSearch {
 public:
  /// True if no other id waits: the owner is to call look() from now on.
  [[nodiscard]] bool add(Id& id, const Route& route, std::unique_ptr<NeighbourQuestion> question,
                         Instant deadline);
  void remove(Id& id) noexcept;
  /// False when no id waits any more: look() is not called until add() returns true.
  [[nodiscard]] bool look(Instant now);
  /// Whether the answer is final. Repeats the question if the neighbour did not answer.
  [[nodiscard]] static bool is_found(NeighbourQuestion& question);

  [[nodiscard]] ForkMutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  /// In a forked child: removes all ids. Unlocks the mutex.
  void abandon_in_child() noexcept VB_UNCHECKED_LOCKING;

 private:
  struct Sought {
    Id* id = nullptr;
    Route route{};
    std::unique_ptr<NeighbourQuestion> question;
    Instant deadline{};
  };

  ForkMutex mutex_;
  std::vector<Sought> all_ VB_GUARDED_BY(mutex_);
  bool is_looked_at_ VB_GUARDED_BY(mutex_) = false;  // the owner calls look()
};

}  // namespace verbatim::connect
