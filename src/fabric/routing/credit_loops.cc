// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/credit_loops.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "fabric/node/node.h"
#include "fabric/routing/cycles.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint32_t kLanes = 16;
constexpr std::uint8_t kNoLane = 15;  // packets of such a level are discarded

std::uint8_t lane_in(const SwitchPart::LaneMap& map, wire::ServiceLevel level) noexcept {
  const auto at = static_cast<std::size_t>(level);
  const auto pair = std::to_integer<unsigned>(map[at / 2]);
  return static_cast<std::uint8_t>(at % 2 == 0 ? pair >> 4 : pair & 15U);
}

class Walk {
 public:
  Walk(const Wiring& wiring, const SubnetPlan& plan, wire::ServiceLevel level)
      : wiring_(wiring),
        plan_(plan),
        lanes_(wiring.port_count()),
        first_lane_(lane_in(Node::kFirstLanes, level)),
        edges_(wiring.port_count() * kLanes),
        outcomes_(wiring.port_count() * kLanes) {
    for (const PlannedLanes& planned : plan.lanes) {
      auto& by_ingress = lanes_[wiring.index_of(planned.out)];
      by_ingress.resize(
          wiring.is_switch(planned.out.node) ? wiring.last_port(planned.out.node) + 1U : 1U,
          first_lane_);
      if (planned.in < by_ingress.size()) by_ingress[planned.in] = lane_in(planned.lanes, level);
    }
  }

  [[nodiscard]] CreditLoops run() {
    std::vector<PortEnd> adapters;
    for (std::uint32_t at = 0; at < wiring_.port_count(); ++at) {
      const PortEnd end = wiring_.end_of(at);
      if (!wiring_.is_switch(end.node) && end.port != 0) adapters.push_back(end);
    }
    for (const PortEnd to : adapters) {
      const PortLids& lids = plan_.lids_of(to);
      if (lids.base == wire::Lid::kReserved) continue;
      for (unsigned path = 0; path < 1U << lids.lmc; ++path) {
        ++stamp_;
        const auto lid = static_cast<std::uint16_t>(static_cast<unsigned>(lids.base) + path);
        for (const PortEnd from : adapters) {
          if (!(from == to) && wiring_.peer_of(from)) follow(from, to, wire::Lid{lid});
        }
      }
    }
    for (const Cycle& cycle : find_cycles(edges_)) {
      LaneCycle named;
      for (const std::uint32_t vertex : cycle) {
        named.push_back({.port = wiring_.end_of(vertex / kLanes),
                         .lane = wire::VirtualLane{static_cast<std::uint8_t>(vertex % kLanes)}});
      }
      found_.loops.push_back(std::move(named));
    }
    return std::move(found_);
  }

 private:
  /// What is known about a channel on the ways to the present LID.
  struct Outcome {
    std::uint32_t stamp = 0;  // of the LID that it is about
    bool arrives = false;
  };

  [[nodiscard]] std::optional<std::uint32_t> channel(PortEnd out, std::uint8_t in) const noexcept {
    const auto& by_ingress = lanes_[wiring_.index_of(out)];
    const std::uint8_t lane = in < by_ingress.size() ? by_ingress[in] : first_lane_;
    if (lane == kNoLane) return std::nullopt;
    return wiring_.index_of(out) * kLanes + lane;
  }
  /// The channel that a packet takes behind a link; empty: none, it has arrived or is discarded.
  [[nodiscard]] std::optional<std::uint32_t> next(PortEnd at, wire::Lid lid) const noexcept {
    if (!wiring_.is_switch(at.node)) return std::nullopt;
    const std::uint8_t out = plan_.port_for(at.node, lid);
    if (out == 0 || out > wiring_.last_port(at.node) || out == at.port) return std::nullopt;
    const PortEnd through{.node = at.node, .port = out};
    if (!wiring_.peer_of(through)) return std::nullopt;
    return channel(through, at.port);
  }

  /// A channel that has been followed for this LID needs no second look.
  void follow(PortEnd from, PortEnd to, wire::Lid lid) {
    ++found_.ways;
    way_.clear();
    bool arrives = false;
    auto here = channel(from, 0);
    while (here) {
      Outcome& outcome = outcomes_[*here];
      const std::uint32_t before = way_.empty() ? *here : way_.back();
      if (!way_.empty()) add_edge(before, *here);
      if (outcome.stamp == stamp_) {
        arrives = outcome.arrives;
        break;
      }
      outcome = {.stamp = stamp_};
      way_.push_back(*here);
      const PortEnd at = *wiring_.peer_of(wiring_.end_of(*here / kLanes));
      if (at == to) arrives = true;
      here = next(at, lid);
    }
    for (const std::uint32_t passed : way_) outcomes_[passed].arrives = arrives;
    if (!arrives) ++found_.broken_ways;
  }
  void add_edge(std::uint32_t from, std::uint32_t to) {
    auto& list = edges_[from];
    if (std::ranges::find(list, to) == list.end()) list.push_back(to);
  }

  const Wiring& wiring_;
  const SubnetPlan& plan_;
  std::vector<std::vector<std::uint8_t>> lanes_;  // by port out and port in; empty: first_lane_
  std::uint8_t first_lane_;
  Edges edges_;                     // by channel
  std::vector<Outcome> outcomes_;   // by channel
  std::vector<std::uint32_t> way_;  // channels
  std::uint32_t stamp_ = 0;
  CreditLoops found_{};
};

}  // namespace

CreditLoops find_credit_loops(const Wiring& wiring, const SubnetPlan& plan,
                              wire::ServiceLevel level) {
  return Walk(wiring, plan, level).run();
}

}  // namespace verbatim::fabric
