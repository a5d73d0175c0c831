// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric/fabric_history.h"

#include <algorithm>
#include <set>
#include <vector>

#include "sim/fabric/data_traffic.h"
#include "sim/fabric/ping.h"
#include "sim/fabric/subnet_manager.h"

namespace verbatim::fabric::test {
namespace {

using std::chrono::milliseconds;

constexpr Duration kPatience = std::chrono::seconds(60);  // virtual; much more than is needed
constexpr Duration kTrafficInterval = std::chrono::microseconds(500);
constexpr PortEnd kManagerPort{.node = 0, .port = 1};

std::vector<PortEnd> host_ports(const Topology& topology) {
  std::vector<PortEnd> ports;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind != NodeKind::kHost) continue;
    for (unsigned port = 1; port <= topology.nodes[node].port_count; ++port) {
      ports.push_back({.node = node, .port = static_cast<std::uint8_t>(port)});
    }
  }
  return ports;
}
/// The ports that have a LID.
std::vector<PortEnd> ends_of(const Topology& topology) {
  std::vector<PortEnd> ends = host_ports(topology);
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind == NodeKind::kSwitch) ends.push_back({.node = node, .port = 0});
  }
  return ends;
}

std::string text_of(const Fabric& fabric, PortEnd port) {
  return fabric.topology().nodes[port.node].id + "[" + std::to_string(port.port) + "]";
}

class Run {
 public:
  explicit Run(const FabricHistory& history)
      : history_(history),
        prng_(history.seed),
        fabric_(random_topology(prng_, history.size), {.seed = history.seed,
                                                       .hop_delay = history.hop_delay,
                                                       .loss_per_mille = history.loss_per_mille,
                                                       .slowdown = history.slowdown}),
        manager_(fabric_, kManagerPort, {.looks_at_switches = history.looks_at_switches}),
        pings_(fabric_, host_ports(fabric_.topology())),
        traffic_(fabric_, host_ports(fabric_.topology()), history.seed),
        next_traffic_(history.has_data ? Instant{} : Instant::never()) {}

  FabricHistoryResult result() {
    manager_.start(now_);
    for (std::uint32_t event = 0; event < history_.events; ++event) {
      wait();
      if (history_.has_data) traffic_.post_some(now_);  // and it is on the way now
      disturb();
    }
    if (!history_.looks_at_switches) wait();
    repair();
    settle();
    check_ports();
    if (result_.complaint.empty()) ping();
    if (result_.complaint.empty() && history_.has_data) send_data();
    if (!traffic_.complaint().empty()) complain(traffic_.complaint());
    result_.sweeps = manager_.sweep_count();
    result_.pings = pings_.answered_count();
    result_.packets = traffic_.arrived_count();
    result_.duration = now_.since_start();
    return std::move(result_);
  }

 private:
  void complain(const std::string& complaint) {
    if (result_.complaint.empty()) result_.complaint = complaint;
  }

  // Time.
  void drain() {
    bool is_quiet = false;
    while (!is_quiet) {
      is_quiet = true;
      fabric_.advance(now_);
      traffic_.drain();
      while (const auto event = fabric_.poll_delivery()) {
        is_quiet = false;
        const Delivery& delivery = event->delivery;
        if (delivery.client == SubnetManager::kClient) {
          manager_.handle(now_, delivery.mad);
        } else {
          pings_.handle(now_, event->port, delivery.client, delivery.mad);
        }
      }
      while (const auto port = fabric_.poll_change()) note(*port);
    }
  }
  void note(PortEnd port) {
    const PortStatus status = fabric_.port_status(port);
    result_.trace += std::to_string(now_.since_start().count()) + " " + text_of(fabric_, port) +
                     " " + std::to_string(static_cast<unsigned>(status.state)) + " " +
                     std::to_string(static_cast<unsigned>(status.lid)) + "\n";
  }
  /// The next instant at which something happens, but not after `end`.
  bool step(Instant end) {
    drain();
    const Instant next =
        std::min({fabric_.next_due().value_or(end), manager_.next_due(), next_traffic_});
    if (next >= end) {
      now_ = end;
      drain();
      return false;
    }
    now_ = std::max(now_, next);
    manager_.handle_time(now_);
    if (now_ >= next_traffic_) {
      traffic_.post_some(now_);
      next_traffic_ = now_ + kTrafficInterval;
    }
    return true;
  }
  void run_until(Instant end) {
    while (step(end)) continue;
  }
  template <typename Condition>
  bool run_until_true(Condition&& condition) {
    const Instant end = now_ + kPatience;
    do {
      drain();
      if (condition()) return true;
    } while (step(end));
    return false;
  }

  // Disturbances.
  /// Not always until the subnet manager has finished. Where it depends on traps, it often has: a
  /// sweep that is under way would see the next change anyway.
  void wait() {
    if (!history_.looks_at_switches && prng_.one_in(2)) {
      (void)run_until_true([&] { return manager_.is_settled(); });
    }
    run_until(now_ + milliseconds(prng_.below(prng_.one_in(3) ? 300 : 20)));
  }
  void disturb() {
    const auto& topology = fabric_.topology();
    if (prng_.one_in(5)) {
      const auto node = static_cast<std::uint32_t>(prng_.below(topology.nodes.size()));
      if (node != kManagerPort.node) fabric_.set_power(now_, node, prng_.one_in(2));
      return;
    }
    const PortEnd port = topology.links[prng_.below(topology.links.size())].a;
    (void)fabric_.set_cable(now_, port, !fabric_.has_cable(port));
  }
  void repair() {
    const auto& topology = fabric_.topology();
    for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
      if (!fabric_.has_power(node)) fabric_.set_power(now_, node, true);
    }
    for (const TopologyLink& link : topology.links) {
      if (!fabric_.has_cable(link.a)) (void)fabric_.set_cable(now_, link.a, true);
    }
  }

  // Promises.
  [[nodiscard]] bool all_are_active() const {
    const PortCensus census = fabric_.census();
    return census.cabled == census.active;
  }
  void settle() {
    if (!run_until_true([&] { return all_are_active() && manager_.is_settled(); })) {
      const PortCensus census = fabric_.census();
      complain("after a minute " + std::to_string(census.active) + " of " +
               std::to_string(census.cabled) +
               " ports are Active; sweeps: " + std::to_string(manager_.sweep_count()));
    }
  }
  void check_ports() {
    const auto& topology = fabric_.topology();
    const PortCensus census = fabric_.census();
    if (census.cabled != 2 * topology.links.size()) complain("the census has not all ports");
    for (const TopologyLink& link : topology.links) {
      for (const PortEnd port : {link.a, link.b}) {
        if (fabric_.port_status(port).state != wire::PortState::kActive) {
          complain(text_of(fabric_, port) + " is not Active");
        }
        ++result_.ports;
      }
    }
    std::set<wire::Lid> lids;
    for (const PortEnd end : ends_of(topology)) {
      const wire::Lid lid = fabric_.port_status(end).lid;
      if (lid == wire::Lid::kReserved) complain(text_of(fabric_, end) + " has no LID");
      if (!lids.insert(lid).second) complain(text_of(fabric_, end) + " has another port's LID");
    }
    if (manager_.end_count() != lids.size()) complain("the subnet manager has not found all ends");
  }
  /// All that is on the way ends first: nothing else may get lost then.
  void send_data() {
    next_traffic_ = Instant::never();
    if (!run_until_true([&] { return traffic_.are_done(); })) complain("a packet is never done");
    traffic_.post_all(now_, SubnetManager::kGroup);
    if (!run_until_true([&] { return traffic_.are_done(); })) complain("a packet is never done");
    if (!fabric_.waiting_lanes().empty()) complain("packets wait that nobody has sent");
    for (const TopologyLink& link : fabric_.topology().links) {
      for (const PortEnd port : {link.a, link.b}) check_lanes(port);
    }
  }
  void check_lanes(PortEnd port) {
    for (unsigned lane = 0; lane < 8; ++lane) {
      const auto number = wire::VirtualLane{static_cast<std::uint8_t>(lane)};
      const LaneState state = fabric_.lane_state(port, number);
      if (state != LaneState{.credits = FabricOptions{}.lane_blocks}) {
        complain(text_of(fabric_, port) + " has not got all credits back");
      }
    }
  }
  void ping() {
    pings_.start(now_, milliseconds(50), history_.loss_per_mille == 0 ? 0 : 30);
    if (!run_until_true([&] { return pings_.are_done(); })) complain("a ping never ends");
    if (!pings_.complaint().empty()) complain(pings_.complaint());
  }

  FabricHistory history_;
  Prng prng_;
  Fabric fabric_;
  SubnetManager manager_;
  Pings pings_;
  DataTraffic traffic_;
  Instant now_{};
  Instant next_traffic_;
  FabricHistoryResult result_{};
};

}  // namespace

FabricHistoryResult run_fabric_history(const FabricHistory& history) {
  return Run(history).result();
}

}  // namespace verbatim::fabric::test
