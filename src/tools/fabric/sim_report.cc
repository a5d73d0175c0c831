// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/sim_report.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "tools/fabric/deadlock_view.h"
#include "tools/fabric/fabric_names.h"
#include "tools/text.h"
#include "wire/management/port_counters.h"

namespace verbatim::tools {
namespace {

constexpr std::size_t kCongestedShown = 10;
constexpr std::size_t kLoopsShown = 4;
constexpr std::array<std::uint64_t, 5> kShares{1, 500, 990, 999, 1000};  // per mille

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }
double microseconds_of(Duration duration) { return seconds_of(duration) * 1e6; }

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string counted(std::uint64_t count, const char* one, const char* several) {
  return grouped(count) + " " + (count == 1 ? one : several);
}

RateSpread spread_of(std::vector<double> rates) {
  if (rates.empty()) return {};
  std::ranges::sort(rates);
  return {.least = rates.front(),
          .median = rates[rates.size() / 2],
          .most = rates.back(),
          .sum = std::accumulate(rates.begin(), rates.end(), 0.0)};
}

std::string spread_text(const RateSpread& spread) {
  return formatted("%.2f least, %.2f median, %.2f most, %.1f together", spread.least, spread.median,
                   spread.most, spread.sum);
}

Json spread_json(const RateSpread& spread) {
  return {
      {"min", spread.least}, {"median", spread.median}, {"max", spread.most}, {"sum", spread.sum}};
}

std::string ways_text(const FabricView& view, const SimReport& report) {
  const fabric::CreditLoops& possible = report.possible;
  std::string text = "ways      " + grouped(possible.ways) + " between hosts, ";
  text +=
      possible.broken_ways == 0 ? "all arrive" : grouped(possible.broken_ways) + " do not arrive";
  const std::string level = std::to_string(static_cast<unsigned>(report.load.level));
  if (possible.loops.empty()) return text + "; no credit loop on service level " + level + "\n";
  text += "; " + counted(possible.loops.size(), "credit loop", "credit loops") +
          " on service level " + level + "\n";
  for (std::size_t at = 0; at < std::min(possible.loops.size(), kLoopsShown); ++at) {
    text += "credit loop " + std::to_string(at + 1) + "\n" + cycle_text(view, possible.loops[at]);
  }
  return text;
}

std::string packets_text(const SimReport& report) {
  const sim::LoadResult& result = report.result;
  std::string text = "packets   " + grouped(result.posted_packets) + " posted, " +
                     grouped(result.delivered_packets) + " delivered, " +
                     grouped(result.dropped_packets) + " dropped, " + grouped(result.under_way()) +
                     " under way at the end\n";
  for (std::size_t at = 0; at < result.drops.size(); ++at) {
    if (result.drops[at] == 0) continue;
    text += "dropped   " + grouped(result.drops[at]) + " " +
            name_of(static_cast<fabric::DropReason>(at)) + "\n";
  }
  return text;
}

std::string latency_text(const sim::Latencies& latencies) {
  if (latencies.count() == 0) return "latency   no message has arrived\n";
  return formatted(
      "latency   us of a message: %.2f least, %.2f median, %.2f 99 %%, %.2f 99.9 %%, "
      "%.2f most\n",
      microseconds_of(latencies.per_mille(kShares[0])),
      microseconds_of(latencies.per_mille(kShares[1])),
      microseconds_of(latencies.per_mille(kShares[2])),
      microseconds_of(latencies.per_mille(kShares[3])),
      microseconds_of(latencies.per_mille(kShares[4])));
}

std::string congested_text(const FabricView& view, const SimReport& report) {
  if (report.congested.empty()) return "waiting   no port has waited for credits\n";
  std::string text = "waiting   PortXmitWait of the most congested links\n";
  for (const CongestedLink& link : report.congested) {
    const auto peer = view.fabric.peer_of(link.port);
    text += "  " + printable(view.names.name_of(link.port)) + " -> " +
            (peer ? printable(view.names.name_of(*peer)) : "-") + "  " + grouped(link.wait_ticks) +
            "\n";
  }
  return text;
}

std::string deadlock_lines(const FabricView& view, const SimReport& report) {
  const auto& found = report.result.deadlock;
  if (!found) return "deadlock  none\n";
  return "deadlock  closed at " + seconds_text(found->deadlock.since) + ", " +
         (found->lasts ? "and lasts" : "and was broken by discards") + "; " +
         counted(found->deadlock.lanes, "lane", "lanes") + " with " +
         counted(found->deadlock.packets, "packet", "packets") + " could not go on at " +
         seconds_text(found->found) + "\n" + cycle_text(view, found->deadlock.cycle);
}

}  // namespace

void complete(const FabricView& view, SimReport& report) {
  const double seconds = seconds_of(report.load.duration);
  const auto gigabits = [&](std::uint64_t octets) {
    return static_cast<double>(octets) * 8 / 1e9 / seconds;
  };
  std::vector<double> sent;
  std::vector<double> received;
  for (const sim::HostTraffic& host : report.result.hosts) {
    if (host.sends) sent.push_back(gigabits(host.delivered_octets));
    if (host.is_sent_to) received.push_back(gigabits(host.received_octets));
  }
  report.sent = spread_of(std::move(sent));
  report.received = spread_of(std::move(received));
  for (const fabric::TopologyLink& link : view.fabric.topology().links) {
    for (const fabric::PortEnd port : {link.a, link.b}) {
      const auto ticks = view.fabric.counter(port, wire::PortCounter::kTransmitWait);
      if (ticks != 0) report.congested.push_back({.port = port, .wait_ticks = ticks});
    }
  }
  std::ranges::stable_sort(report.congested, std::ranges::greater(), &CongestedLink::wait_ticks);
  report.congested.resize(std::min(report.congested.size(), kCongestedShown));
}

std::string sim_text(const FabricView& view, const SimReport& report) {
  const FabricSummary summary = summary_of(view);
  return "fabric    " + counted(summary.hosts, "host", "hosts") + ", " +
         counted(summary.switches, "switch", "switches") + ", " +
         counted(summary.links, "link", "links") + "; routes: " + printable(report.routes) + "\n" +
         ways_text(view, report) + "traffic   " + printable(report.pattern) + ", messages of " +
         counted(report.load.message_octets, "octet", "octets") + ", load " +
         std::to_string(report.load.load_percent) + " %, " +
         formatted("%g s", seconds_of(report.load.duration)) + ", seed " +
         std::to_string(report.load.seed) + "\n" + packets_text(report) + "messages  " +
         grouped(report.result.delivered_messages) + " delivered\n" +
         "sent      Gb/s of a host: " + spread_text(report.sent) + "\n" +
         "received  Gb/s of a host: " + spread_text(report.received) + "\n" +
         latency_text(report.result.latencies) + congested_text(view, report) +
         deadlock_lines(view, report);
}

Json sim_json(const FabricView& view, const SimReport& report) {
  const FabricSummary summary = summary_of(view);
  const sim::LoadResult& result = report.result;
  Json drops = Json::object();
  for (std::size_t at = 0; at < result.drops.size(); ++at) {
    if (result.drops[at] != 0) {
      drops[name_of(static_cast<fabric::DropReason>(at))] = result.drops[at];
    }
  }
  Json congested = Json::array();
  for (const CongestedLink& link : report.congested) {
    const auto peer = view.fabric.peer_of(link.port);
    congested.push_back({{"port", view.names.name_of(link.port)},
                         {"peer", peer ? Json(view.names.name_of(*peer)) : Json(nullptr)},
                         {"xmit_wait", link.wait_ticks}});
  }
  Json deadlock = nullptr;
  if (result.deadlock) {
    deadlock = {{"closed_seconds", seconds_of(result.deadlock->deadlock.since.since_start())},
                {"found_seconds", seconds_of(result.deadlock->found.since_start())},
                {"lasts", result.deadlock->lasts},
                {"stuck_lanes", result.deadlock->deadlock.lanes},
                {"stuck_packets", result.deadlock->deadlock.packets},
                {"cycle", cycle_json(view, result.deadlock->deadlock.cycle)}};
  }
  const auto latency = [&](std::uint64_t share) {
    return microseconds_of(result.latencies.per_mille(share));
  };
  return {{"hosts", summary.hosts},
          {"switches", summary.switches},
          {"links", summary.links},
          {"routes", report.routes},
          {"ways", report.possible.ways},
          {"broken_ways", report.possible.broken_ways},
          {"credit_loops", cycles_json(view, report.possible.loops)},
          {"pattern", report.pattern},
          {"message_octets", report.load.message_octets},
          {"load_percent", report.load.load_percent},
          {"seconds", seconds_of(report.load.duration)},
          {"seed", report.load.seed},
          {"trace", formatted("%016llx", static_cast<unsigned long long>(result.trace))},
          {"posted_packets", result.posted_packets},
          {"delivered_packets", result.delivered_packets},
          {"dropped_packets", result.dropped_packets},
          {"under_way_packets", result.under_way()},
          {"drops", std::move(drops)},
          {"delivered_messages", result.delivered_messages},
          {"sent_gigabits", spread_json(report.sent)},
          {"received_gigabits", spread_json(report.received)},
          {"latency_microseconds",
           {{"min", latency(kShares[0])},
            {"p50", latency(kShares[1])},
            {"p99", latency(kShares[2])},
            {"p99.9", latency(kShares[3])},
            {"max", latency(kShares[4])}}},
          {"congested_links", std::move(congested)},
          {"deadlock", std::move(deadlock)}};
}

}  // namespace verbatim::tools
