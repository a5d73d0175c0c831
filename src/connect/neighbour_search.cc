// SPDX-License-Identifier: Apache-2.0
#include "connect/neighbour_search.h"

#include <utility>

#include "connect/id.h"

namespace verbatim::connect {

bool NeighbourSearch::is_found(NeighbourQuestion& question) {
  switch (question.answer()) {
    case device::Neighbour::kUnknown:  // no entry after the question: it is behind a router
    case device::Neighbour::kKnown:
      return true;
    case device::Neighbour::kFailed:
      question.repeat();  // until the program's timeout
      return false;
    case device::Neighbour::kSought:
      return false;
  }
  return false;
}

bool NeighbourSearch::add(Id& id, const Route& route, std::unique_ptr<NeighbourQuestion> question,
                          Instant deadline) {
  const LockGuard lock(mutex_);
  all_.push_back(
      {.id = &id, .route = route, .question = std::move(question), .deadline = deadline});
  return !std::exchange(is_looked_at_, true);
}

void NeighbourSearch::remove(Id& id) noexcept {
  const LockGuard lock(mutex_);
  std::erase_if(all_, [&](const Sought& sought) { return sought.id == &id; });
}

bool NeighbourSearch::look(Instant now) {
  const LockGuard lock(mutex_);
  std::vector<Sought> left;
  for (Sought& sought : all_) {
    if (is_found(*sought.question)) {
      sought.id->finish_resolving(sought.route, Ok{});
    } else if (now >= sought.deadline) {
      sought.id->finish_resolving(sought.route, Error::kTimedOut);
    } else {
      left.push_back(std::move(sought));
    }
  }
  all_ = std::move(left);
  is_looked_at_ = !all_.empty();
  return is_looked_at_;
}

void NeighbourSearch::abandon_in_child() noexcept {
  all_.clear();
  is_looked_at_ = false;
  mutex_.unlock_after_fork();
}

}  // namespace verbatim::connect
