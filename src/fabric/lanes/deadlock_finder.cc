// SPDX-License-Identifier: Apache-2.0
#include "fabric/lanes/deadlock_finder.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>

#include "fabric/routing/cycles.h"

namespace verbatim::fabric {
namespace {

auto key_of(const LaneEnd& end) noexcept {
  return std::tuple(end.port.node, end.port.port, end.lane);
}
bool is_before(const LaneEnd& a, const LaneEnd& b) noexcept { return key_of(a) < key_of(b); }

/// A buffer and a waiting lane with packets from it, by the number of the lane.
struct Source {
  LaneEnd buffer{};
  std::uint32_t lane = 0;
};

class Finder {
 public:
  explicit Finder(std::span<const LaneWait> waits)
      : waits_(waits), order_(waits.size()), edges_(waits.size()), reversed_(waits.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    std::ranges::sort(order_, is_before, [&](std::uint32_t at) { return waits[at].out; });
    connect();
    release();
  }

  [[nodiscard]] std::vector<Deadlock> deadlocks() const {
    Deadlock found;
    for (std::uint32_t lane = 0; lane < edges_.size(); ++lane) {
      if (can_go_on_[lane]) continue;
      ++found.lanes;
      found.packets += wait_of(lane).packets;
    }
    std::vector<Deadlock> all;
    for (const Cycle& cycle : find_cycles(edges_)) {
      found.cycle.clear();
      found.since = Instant{};
      for (const std::uint32_t lane : cycle) {
        found.cycle.push_back(wait_of(lane).out);
        found.since = std::max(found.since, wait_of(lane).since);
      }
      all.push_back(found);
    }
    return all;
  }

 private:
  /// Lanes are numbered in their order.
  [[nodiscard]] const LaneWait& wait_of(std::uint32_t lane) const noexcept {
    return waits_[order_[lane]];
  }

  /// From each lane to those that hold the room that it waits for.
  void connect() {
    std::vector<Source> sources;
    for (std::uint32_t lane = 0; lane < edges_.size(); ++lane) {
      for (const LaneEnd& buffer : wait_of(lane).sources) sources.push_back({buffer, lane});
    }
    std::ranges::stable_sort(sources, is_before, &Source::buffer);
    for (std::uint32_t lane = 0; lane < edges_.size(); ++lane) {
      const auto& buffer = wait_of(lane).buffer;
      if (!buffer) continue;
      auto source = std::ranges::lower_bound(sources, *buffer, is_before, &Source::buffer);
      for (; source != sources.end() && !is_before(*buffer, source->buffer); ++source) {
        edges_[lane].push_back(source->lane);
        reversed_[source->lane].push_back(lane);
      }
    }
  }

  /// A lane that waits for its turn goes on, and so does one that waits for room which no waiting
  /// packet holds. Then those go on that wait for them.
  void release() {
    can_go_on_.resize(edges_.size());
    std::vector<std::uint32_t> next;
    for (std::uint32_t lane = 0; lane < edges_.size(); ++lane) {
      if (!edges_[lane].empty()) continue;
      can_go_on_[lane] = true;
      next.push_back(lane);
    }
    for (std::size_t at = 0; at < next.size(); ++at) {
      for (const std::uint32_t lane : reversed_[next[at]]) {
        if (can_go_on_[lane]) continue;
        can_go_on_[lane] = true;
        next.push_back(lane);
      }
    }
    for (std::uint32_t lane = 0; lane < edges_.size(); ++lane) {
      if (can_go_on_[lane]) edges_[lane].clear();
    }
  }

  std::span<const LaneWait> waits_;
  std::vector<std::uint32_t> order_;  // by lane: index in waits_
  Edges edges_;
  Edges reversed_;
  std::vector<bool> can_go_on_{};
};

}  // namespace

std::vector<Deadlock> find_deadlocks(std::span<const LaneWait> waits) {
  return Finder(waits).deadlocks();
}

}  // namespace verbatim::fabric
