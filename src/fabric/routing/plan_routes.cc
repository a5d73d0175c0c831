// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/plan_routes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "fabric/routing/wiring.h"

namespace verbatim::fabric {
namespace {

using Hops = std::vector<std::uint32_t>;  // by node
constexpr std::uint32_t kFar = std::numeric_limits<std::uint32_t>::max();

class Planner {
 public:
  Planner(const Topology& topology, Routing routing)
      : wiring_(topology), plan_(topology), load_(wiring_.port_count()) {
    if (routing == Routing::kUpDown) rank();
  }

  [[nodiscard]] Expected<SubnetPlan> run(std::string& message) {
    if (!give_lids()) {
      message = "the topology has more than " + std::to_string(SubnetPlan::kLastLid) +
                " adapter ports and switches, which are all LIDs of a subnet";
      return Errc::kInvalidArgument;
    }
    for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
      if (wiring_.is_switch(node)) route_to_switch(node);
    }
    return std::move(plan_);
  }

 private:
  template <typename Visit>
  void for_each_switch_beside(std::uint32_t node, Visit&& visit) const {
    for (unsigned port = 1; port <= wiring_.last_port(node); ++port) {
      const PortEnd out{.node = node, .port = static_cast<std::uint8_t>(port)};
      const auto& peer = wiring_.peer_of(out);
      if (peer && wiring_.is_switch(peer->node)) visit(out, *peer);
    }
  }

  [[nodiscard]] bool give_lids();
  void rank();
  void rank(std::vector<std::uint32_t> roots);
  [[nodiscard]] bool reaches_all();
  [[nodiscard]] std::vector<std::uint32_t> beside_adapters() const;
  [[nodiscard]] std::vector<std::uint32_t> top() const;
  [[nodiscard]] std::uint32_t middle() const;
  /// Hops to the nearest of some nodes, over switches that `may_pass(from, to)`.
  template <typename MayPass>
  [[nodiscard]] Hops hops_to(const std::vector<std::uint32_t>& nodes, MayPass&& may_pass) const;
  [[nodiscard]] bool is_up(std::uint32_t from, std::uint32_t to) const noexcept {
    return !ranks_.empty() && ranks_[to] < ranks_[from];
  }
  void route_to_switch(std::uint32_t target);
  void find_ways_to(std::uint32_t target);
  [[nodiscard]] bool leads_on(std::uint32_t from, std::uint32_t to) const noexcept;
  void route(PortEnd last_hop, wire::Lid lid, bool counts);

  const Wiring wiring_;
  SubnetPlan plan_;
  std::vector<std::uint32_t> load_;       // by port: LIDs of adapters behind it
  std::vector<std::uint32_t> ranks_;      // by node, 0 the top; empty: there is no up and down
  std::vector<std::uint32_t> by_rank_{};  // switches, the top first
  // About the switch that ways lead to.
  Hops hops_{};       // of the way that is taken
  Hops hops_down_{};  // of the shortest one that only goes down
};

bool Planner::give_lids() {
  std::size_t next = 1;
  const auto give = [&](PortEnd end) {
    if (next > SubnetPlan::kLastLid) return false;
    plan_.lids_of(end) = {.base = wire::Lid{static_cast<std::uint16_t>(next++)}};
    return true;
  };
  for (const bool switches : {false, true}) {
    for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
      if (wiring_.is_switch(node) != switches) continue;
      const unsigned last = switches ? 0 : wiring_.last_port(node);
      for (unsigned port = switches ? 0 : 1; port <= last; ++port) {
        if (!give({.node = node, .port = static_cast<std::uint8_t>(port)})) return false;
      }
    }
  }
  return true;
}

template <typename MayPass>
Hops Planner::hops_to(const std::vector<std::uint32_t>& nodes, MayPass&& may_pass) const {
  Hops hops(wiring_.node_count(), kFar);
  std::vector<std::uint32_t> next(nodes);
  for (const std::uint32_t node : nodes) hops[node] = 0;
  for (std::size_t at = 0; at < next.size(); ++at) {
    const std::uint32_t here = next[at];
    for_each_switch_beside(here, [&](PortEnd, PortEnd peer) {
      if (hops[peer.node] != kFar || !may_pass(peer.node, here)) return;
      hops[peer.node] = hops[here] + 1;
      next.push_back(peer.node);
    });
  }
  return hops;
}

std::vector<std::uint32_t> Planner::beside_adapters() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
    if (!wiring_.is_switch(node)) continue;
    for (unsigned port = 1; port <= wiring_.last_port(node); ++port) {
      const auto& peer = wiring_.peer_of({.node = node, .port = static_cast<std::uint8_t>(port)});
      if (!peer || wiring_.is_switch(peer->node)) continue;
      found.push_back(node);
      break;
    }
  }
  return found;
}

/// The switches that are farthest from any adapter, if not all are equally far.
std::vector<std::uint32_t> Planner::top() const {
  const Hops hops = hops_to(beside_adapters(), [](auto, auto) { return true; });
  std::uint32_t most = 0;
  for (const std::uint32_t each : hops) most = each == kFar ? most : std::max(most, each);
  std::vector<std::uint32_t> found;
  for (std::uint32_t node = 0; most > 0 && node < hops.size(); ++node) {
    if (hops[node] == most) found.push_back(node);
  }
  return found;
}

std::uint32_t Planner::middle() const {
  std::uint32_t best = 0;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
    if (!wiring_.is_switch(node)) continue;
    const Hops hops = hops_to({node}, [](auto, auto) { return true; });
    std::uint64_t sum = 0;
    for (std::uint32_t each = 0; each < hops.size(); ++each) {
      if (wiring_.is_switch(each)) sum += std::min<std::uint64_t>(hops[each], hops.size());
    }
    if (sum >= least) continue;
    least = sum;
    best = node;
  }
  return best;
}

/// Ranks all switches: roots first, then by their distance from the nearest one. No two have one
/// rank, so each link between switches has an upper end. With one root in each connected part, each
/// switch is reached from everywhere; with several ones not always.
void Planner::rank(std::vector<std::uint32_t> roots) {
  Hops hops = hops_to(roots, [](auto, auto) { return true; });
  by_rank_.clear();
  for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
    if (!wiring_.is_switch(node)) continue;
    by_rank_.push_back(node);
    if (hops[node] != kFar) continue;
    roots.push_back(node);
    hops = hops_to(roots, [](auto, auto) { return true; });
  }
  std::ranges::stable_sort(by_rank_, {}, [&](std::uint32_t node) { return hops[node]; });
  ranks_.assign(wiring_.node_count(), 0);
  for (std::uint32_t at = 0; at < by_rank_.size(); ++at) ranks_[by_rank_[at]] = at;
}

void Planner::rank() {
  const std::vector<std::uint32_t> roots = top();
  if (!roots.empty()) {
    rank(roots);
    if (reaches_all()) return;
  }
  rank({middle()});
}

/// Whether there is a way up and down between adapters wherever there is a way.
bool Planner::reaches_all() {
  const std::vector<std::uint32_t> ends = beside_adapters();
  return std::ranges::all_of(ends, [&](std::uint32_t target) {
    const Hops any = hops_to({target}, [](auto, auto) { return true; });
    find_ways_to(target);
    return std::ranges::all_of(
        ends, [&](std::uint32_t node) { return (any[node] == kFar) == (hops_[node] == kFar); });
  });
}

/// With up and down: a switch from which ways go down to the target takes one of these, since a
/// packet may have come down to it. Another one goes up, to where the rest of the way is shortest.
void Planner::find_ways_to(std::uint32_t target) {
  if (ranks_.empty()) {
    hops_ = hops_to({target}, [](auto, auto) { return true; });
    return;
  }
  hops_down_ = hops_to({target}, [&](auto from, auto to) { return !is_up(from, to); });
  hops_ = hops_down_;
  for (const std::uint32_t node : by_rank_) {
    if (hops_down_[node] != kFar) continue;
    for_each_switch_beside(node, [&](PortEnd, PortEnd peer) {
      if (!is_up(node, peer.node) || hops_[peer.node] == kFar) return;
      hops_[node] = std::min(hops_[node], hops_[peer.node] + 1);
    });
  }
}

bool Planner::leads_on(std::uint32_t from, std::uint32_t to) const noexcept {
  if (hops_[to] == kFar || hops_[to] + 1 != hops_[from]) return false;
  if (ranks_.empty()) return true;
  const bool goes_down = hops_down_[from] != kFar;
  return goes_down ? !is_up(from, to) && hops_down_[to] + 1 == hops_down_[from] : is_up(from, to);
}

/// All LIDs at a switch: its own, and those of the adapters at its ports.
void Planner::route_to_switch(std::uint32_t target) {
  find_ways_to(target);
  route({.node = target, .port = 0}, plan_.lids_of({.node = target, .port = 0}).base, false);
  for (unsigned port = 1; port <= wiring_.last_port(target); ++port) {
    const PortEnd last_hop{.node = target, .port = static_cast<std::uint8_t>(port)};
    const auto& peer = wiring_.peer_of(last_hop);
    if (!peer || wiring_.is_switch(peer->node)) continue;
    route(last_hop, plan_.lids_of(*peer).base, true);
  }
}

void Planner::route(PortEnd last_hop, wire::Lid lid, bool counts) {
  plan_.set_port(last_hop.node, lid, last_hop.port);
  for (std::uint32_t node = 0; node < wiring_.node_count(); ++node) {
    if (!wiring_.is_switch(node) || node == last_hop.node || hops_[node] == kFar) continue;
    std::optional<PortEnd> best;
    for_each_switch_beside(node, [&](PortEnd out, PortEnd peer) {
      if (!leads_on(node, peer.node)) return;
      if (!best || load_[wiring_.index_of(out)] < load_[wiring_.index_of(*best)]) best = out;
    });
    if (!best) continue;
    plan_.set_port(node, lid, best->port);
    if (counts) ++load_[wiring_.index_of(*best)];
  }
}

}  // namespace

Expected<SubnetPlan> plan_routes(const Topology& topology, Routing routing, std::string& message) {
  return Planner(topology, routing).run(message);
}

}  // namespace verbatim::fabric
