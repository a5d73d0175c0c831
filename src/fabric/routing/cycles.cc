// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/cycles.h"

#include <algorithm>
#include <cstddef>

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// Finds the parts in which all vertices reach each other, by Tarjan's algorithm without recursion:
/// a path in a large fabric is longer than a stack.
class Parts {
 public:
  explicit Parts(const Edges& edges)
      : edges_(edges), order_(edges.size(), kNone), low_(edges.size()), part_(edges.size(), kNone) {
    for (std::uint32_t vertex = 0; vertex < edges.size(); ++vertex) {
      if (order_[vertex] == kNone) search(vertex);
    }
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t vertex) const noexcept { return part_[vertex]; }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return static_cast<std::uint32_t>(sizes_.size());
  }
  /// Of the part of a vertex.
  [[nodiscard]] std::uint32_t size_of(std::uint32_t vertex) const noexcept {
    return sizes_[part_[vertex]];
  }

 private:
  struct Step {
    std::uint32_t vertex = 0;
    std::size_t next_edge = 0;
  };

  void enter(std::uint32_t vertex) {
    order_[vertex] = low_[vertex] = visited_++;
    open_.push_back(vertex);
    steps_.push_back({.vertex = vertex});
  }
  void search(std::uint32_t start) {
    enter(start);
    while (!steps_.empty()) {
      Step& step = steps_.back();
      const std::uint32_t here = step.vertex;
      if (step.next_edge == edges_[here].size()) {
        leave(here);
        continue;
      }
      const std::uint32_t to = edges_[here][step.next_edge++];
      if (order_[to] == kNone) {
        enter(to);
      } else if (part_[to] == kNone) {
        low_[here] = std::min(low_[here], order_[to]);
      }
    }
  }
  void leave(std::uint32_t vertex) {
    steps_.pop_back();
    if (!steps_.empty()) {
      std::uint32_t& before = low_[steps_.back().vertex];
      before = std::min(before, low_[vertex]);
    }
    if (low_[vertex] != order_[vertex]) return;
    const auto part = static_cast<std::uint32_t>(sizes_.size());
    sizes_.push_back(0);
    std::uint32_t member = kNone;
    do {
      member = open_.back();
      open_.pop_back();
      part_[member] = part;
      ++sizes_[part];
    } while (member != vertex);
  }

  const Edges& edges_;
  std::vector<std::uint32_t> order_;  // in which vertices were entered
  std::vector<std::uint32_t> low_;    // the earliest vertex that is reached
  std::vector<std::uint32_t> part_;   // kNone: open
  std::vector<std::uint32_t> open_{};
  std::vector<Step> steps_{};
  std::uint32_t visited_ = 0;
  std::vector<std::uint32_t> sizes_{};  // by part
};

/// A shortest way from a vertex back to it inside of its part; empty: there is none.
Cycle shortest_cycle(const Edges& edges, const Parts& parts, std::uint32_t start) {
  std::vector<std::uint32_t> before(edges.size(), kNone);
  std::vector<std::uint32_t> next{start};
  for (std::size_t at = 0; at < next.size(); ++at) {
    const std::uint32_t here = next[at];
    for (const std::uint32_t to : edges[here]) {
      if (parts.of(to) != parts.of(start)) continue;
      if (to == start) {
        Cycle cycle;
        for (std::uint32_t each = here; each != start; each = before[each]) cycle.push_back(each);
        cycle.push_back(start);
        std::ranges::reverse(cycle);
        return cycle;
      }
      if (before[to] != kNone) continue;
      before[to] = here;
      next.push_back(to);
    }
  }
  return {};
}

}  // namespace

std::vector<Cycle> find_cycles(const Edges& edges) {
  const Parts parts(edges);
  std::vector<bool> is_done(parts.count());
  std::vector<Cycle> cycles;
  for (std::uint32_t vertex = 0; vertex < edges.size(); ++vertex) {
    if (is_done[parts.of(vertex)]) continue;
    is_done[parts.of(vertex)] = true;
    const auto& list = edges[vertex];
    const bool is_alone = parts.size_of(vertex) == 1;
    if (is_alone && std::ranges::find(list, vertex) == list.end()) continue;
    Cycle cycle = shortest_cycle(edges, parts, vertex);
    if (!cycle.empty()) cycles.push_back(std::move(cycle));
  }
  return cycles;
}

}  // namespace verbatim::fabric
