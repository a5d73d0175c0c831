// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/fork_mutex.h"
#include "base/time.h"
#include "connect/route.h"
#include "device/neighbour_table.h"

namespace verbatim::connect {

class Id;

/// One question to the system for a neighbour.
class NeighbourQuestion {
 public:
  NeighbourQuestion() noexcept = default;
  NeighbourQuestion(const NeighbourQuestion&) = delete;
  NeighbourQuestion& operator=(const NeighbourQuestion&) = delete;
  virtual ~NeighbourQuestion() = default;

  [[nodiscard]] virtual device::Neighbour answer() = 0;
  /// Once more, where no neighbour has answered.
  virtual void repeat() = 0;
};

/// The neighbours that are looked for, and the ids that wait for them. An id is finished
/// (Id::finish_resolving()) when its neighbour is known, or with kTimedOut at its deadline. A
/// neighbour that the system has never heard of, even after the question, is behind a router, and
/// is taken to be there.
///
/// It starts no thread and reads no clock: the owner calls look() while it says that ids wait.
/// Thread: any; its lock is held while ids are finished, so after remove() an id is not finished.
class NeighbourSearch {
 public:
  /// Returns whether it is the first one: look() is to be called from now on.
  [[nodiscard]] bool add(Id& id, const Route& route, std::unique_ptr<NeighbourQuestion> question,
                         Instant deadline);
  void remove(Id& id) noexcept;
  /// False when no id waits any more, and look() is not to be called until add() says so.
  [[nodiscard]] bool look(Instant now);
  /// Whether the answer is all that there will be.
  [[nodiscard]] static bool is_found(NeighbourQuestion& question);

  [[nodiscard]] ForkMutex& mutex() noexcept { return mutex_; }
  /// In a forked child no neighbour is sought. Unlocks the mutex.
  void abandon_in_child() noexcept;

 private:
  struct Sought {
    Id* id = nullptr;
    Route route{};
    std::unique_ptr<NeighbourQuestion> question;
    Instant deadline{};
  };

  ForkMutex mutex_;
  std::vector<Sought> all_;
  bool is_looked_at_ = false;  // look() is being called
};

}  // namespace verbatim::connect
