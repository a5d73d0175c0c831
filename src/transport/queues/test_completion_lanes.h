// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "transport/queues/completion_lanes.h"
#include "transport/queues/test_block.h"

namespace verbatim::transport::test {

/// A completion queue and its lanes, for tests.
class TestQueue {
 public:
  static constexpr std::uint32_t kDepth = 8;  // of each lane

  explicit TestQueue(std::uint32_t lane_limit = 4, std::uint32_t capacity = 64)
      : TestQueue(lane_limit, capacity, lane_limit) {}
  TestQueue(std::uint32_t lane_limit, std::uint32_t capacity, std::uint32_t hint_count)
      : board_block_(CompletionBoard::octets_for(hint_count)),
        board_(CompletionBoard::create(board_block_.span(), hint_count)),
        lanes_(lane_limit),
        queue_(board_, lanes_, capacity) {}

  CompletionLane lane(std::uint32_t depth = kDepth) {
    blocks_.emplace_back(CompletionLane::octets_for(depth));
    return CompletionLane::create(blocks_.back().span(), depth);
  }
  CompletionPort attach(std::uint32_t depth = kDepth) { return *queue_.attach(lane(depth)); }

  /// Polls up to `most` completions; their wr_ids.
  std::vector<std::uint64_t> poll(std::size_t most) {
    std::vector<Completion> into(most);
    into.resize(queue_.poll(into));
    std::vector<std::uint64_t> ids;
    for (const Completion& got : into) ids.push_back(got.wr_id);
    return ids;
  }
  void grow(std::size_t places) {
    lanes_.resize(places);
    queue_.use_places(lanes_);
  }
  CompletionLanes& queue() { return queue_; }
  CompletionBoard& board() { return board_; }

 private:
  TestBlock board_block_;
  CompletionBoard board_;
  std::vector<CompletionLane> lanes_;
  std::deque<TestBlock> blocks_;
  CompletionLanes queue_;
};

using Ids = std::vector<std::uint64_t>;  // of work requests

inline bool publish(CompletionPort& port, std::uint64_t wr_id) {
  return port.publish(completion(wr_id));
}

inline Completion solicited(std::uint64_t wr_id) {
  Completion made = completion(wr_id);
  made.solicited = true;
  return made;
}
inline Completion failed(std::uint64_t wr_id) {
  Completion made = completion(wr_id);
  made.status = WcStatus::kFlushed;
  return made;
}

}  // namespace verbatim::transport::test
