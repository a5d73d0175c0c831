// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "fabric/routing/read_forwarding_dump.h"
#include "fabric/routing/read_lane_dump.h"
#include "tools/fabric/sim_options.h"
#include "tools/fabric/sim_report.h"
#include "tools/fabric/text_file.h"
#include "tools/fabric/topology_choice.h"

namespace verbatim::tools {
namespace {

constexpr int kWrongCommandLine = 2;
constexpr int kDeadlock = 1;
constexpr std::uint8_t kForEver = 31;  // as a life time; above 19 is for ever
constexpr std::uint32_t kBlocksPerKib = 16;

Errc refuse(std::string& message, std::string why) {
  message = std::move(why);
  return Errc::kInvalidArgument;
}

Expected<fabric::Topology> topology_of(const FabricSimOptions& options, std::string& message) {
  TopologyChoice choice{.rate = options.rate};
  const std::size_t colon = options.fabric.find(':');
  const std::string word = options.fabric.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : options.fabric.substr(colon + 1);
  std::string* const shape = word == "tree"       ? &choice.tree
                             : word == "ring"     ? &choice.ring
                             : word == "fat-tree" ? &choice.fat_tree
                             : word == "torus"    ? &choice.torus
                                                  : nullptr;
  if (shape == nullptr || rest.empty()) {
    choice.file = options.fabric;
  } else {
    *shape = rest;
  }
  return choose_topology(choice, message);
}

/// Reads a dump that belongs to a topology; a mistake in it is named with file and line.
template <typename Value>
Expected<Value> read_dump(const std::string& name, const fabric::Topology& topology,
                          Expected<Value> (*read)(std::string_view, const fabric::Topology&,
                                                  fabric::TopologyError&),
                          std::string& message) {
  const auto content = content_of_file(name, message);
  if (!content) return content.error();
  fabric::TopologyError error;
  auto value = read(*content, topology, error);
  if (value.ok()) return value;
  const std::string line = error.line != 0 ? ":" + std::to_string(error.line) : "";
  return refuse(message, name + line + ": " + error.message);
}

Expected<fabric::SubnetPlan> plan_from(const FabricSimOptions& options,
                                       const fabric::Topology& topology, std::string& message) {
  auto plan = [&]() -> Expected<fabric::SubnetPlan> {
    if (!options.lft.empty()) {
      return read_dump(options.lft, topology, fabric::read_forwarding_dump, message);
    }
    const auto routing =
        options.routing == "updn" ? fabric::Routing::kUpDown : fabric::Routing::kMinHop;
    return fabric::plan_routes(topology, routing, message);
  }();
  if (!plan || options.lanes.empty()) return plan;
  auto lanes = read_dump(options.lanes, topology, fabric::read_lane_dump, message);
  if (!lanes) return lanes.error();
  plan->lanes = std::move(*lanes);
  return plan;
}

Expected<fabric::SubnetSettings> settings_of(const FabricSimOptions& options,
                                             std::string& message) {
  fabric::SubnetSettings settings;
  if (options.queue_life.empty()) return settings;
  std::uint8_t life = kForEver;
  if (options.queue_life != "off") {
    const char* const end = options.queue_life.data() + options.queue_life.size();
    const auto parsed = std::from_chars(options.queue_life.data(), end, life);
    if (parsed.ec != std::errc{} || parsed.ptr != end || life > kForEver) {
      return refuse(message, "--queue-life: '" + options.queue_life +
                                 "' is neither off nor a number from 0 to 31, for 4.096 us * 2^it");
    }
  }
  settings.queue_life = settings.queue_life_to_host = life;
  if (options.queue_life == "off") settings.switch_life = life;
  return settings;
}

Expected<sim::FabricLoad> load_of(const FabricSimOptions& options, std::string& message) {
  sim::FabricLoad load{.message_octets = options.message_octets,
                       .load_percent = options.load_percent,
                       .level = wire::ServiceLevel{static_cast<std::uint8_t>(options.level)},
                       .seed = options.seed};
  const auto pattern = sim::parse_traffic_pattern(options.pattern, message);
  if (!pattern) return refuse(message, "--pattern: " + message);
  load.pattern = *pattern;
  const auto duration = parse_duration(options.duration, message);
  if (!duration) return refuse(message, "--duration: " + message);
  load.duration = *duration;
  return load;
}

/// The exit status; empty: `message` says what is wrong.
std::optional<int> run(const FabricSimOptions& options, std::string& message) {
  auto topology = topology_of(options, message);
  if (!topology) return std::nullopt;
  const auto plan = plan_from(options, *topology, message);
  if (!plan) return std::nullopt;
  const auto settings = settings_of(options, message);
  if (!settings) return std::nullopt;
  const auto load = load_of(options, message);
  if (!load) return std::nullopt;
  fabric::Fabric fabric(
      std::move(*topology),
      {.seed = options.seed,
       .hop_delay = Duration(options.hop_delay_ns),
       .slowdown = 1,
       .lane_blocks = static_cast<std::uint16_t>(options.lane_buffer_kib * kBlocksPerKib)});
  if (!fabric::set_up_subnet(fabric, Instant{}, *plan, *settings, message)) return std::nullopt;
  auto result = sim::run_load(fabric, *load, message);
  if (!result) return std::nullopt;
  const fabric::NodeNames names(fabric.topology());
  const fabric::NodeAddresses addresses(fabric.topology());
  const FabricView view{fabric, names, addresses};
  SimReport report{
      .routes = options.lft.empty() ? options.routing : options.lft,
      .pattern = options.pattern,
      .load = *load,
      .possible = fabric::find_credit_loops(fabric::Wiring(fabric.topology()), *plan, load->level),
      .result = std::move(*result)};
  complete(view, report);
  const std::string text = options.json ? text_of(sim_json(view, report)) : sim_text(view, report);
  std::fputs(text.c_str(), stdout);
  return report.result.deadlock ? kDeadlock : 0;
}

}  // namespace

Expected<Duration> parse_duration(std::string_view text, std::string& message) {
  constexpr std::int64_t kMost = 3'600'000'000'000;
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  const std::int64_t nanoseconds = unit == "ns"   ? 1
                                   : unit == "us" ? 1'000
                                   : unit == "ms" ? 1'000'000
                                   : unit == "s"  ? 1'000'000'000
                                                  : 0;
  if (parsed.ec == std::errc{} && nanoseconds != 0 && count > 0 && count <= kMost / nanoseconds) {
    return Duration(count * nanoseconds);
  }
  return refuse(
      message, "'" + std::string(text) + "' is not a time of at most an hour, as 500us, 1ms or 2s");
}

int run_fabric_sim(const FabricSimOptions& options) {
  std::string message;
  if (const auto status = run(options, message)) return *status;
  std::fprintf(stderr, "verbatim sim: %s\n", message.c_str());
  return kWrongCommandLine;
}

}  // namespace verbatim::tools
