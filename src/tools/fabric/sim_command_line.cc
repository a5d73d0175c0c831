// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/sim_command_line.h"

#include <string>

namespace verbatim::tools {
namespace {

std::string check_not_empty(const std::string& text) {
  return text.empty() ? "a value is missing" : "";
}

}  // namespace

FabricSimCommandLine::FabricSimCommandLine(CLI::App& sim) {
  fabric_ = sim.add_option("--fabric", options_.fabric,
                           "Instead: traffic on an InfiniBand fabric in virtual time; a file as "
                           "ibnetdiscover writes it, or tree:2x2, ring:6, fat-tree:32x32/16, "
                           "torus:4x4")
                ->check(check_not_empty);
  const auto add = [&](const char* name, auto& value, const char* help) {
    return sim.add_option(name, value, help)->needs(fabric_);
  };
  add("--rate", options_.rate, "Of all links of a shape, as 4xHDR")->check(check_not_empty);
  auto* lft = add("--lft", options_.lft,
                  "Forwarding tables that OpenSM has dumped: opensm.fdbs or opensm-lfts.dump")
                  ->check(check_not_empty);
  add("--routing", options_.routing, "Without --lft: minhop, or updn, which has no credit loops")
      ->check(CLI::IsMember({"minhop", "updn"}))
      ->capture_default_str()
      ->excludes(lft);
  add("--sl2vl", options_.lanes, "Maps of lanes that OpenSM has dumped: opensm-sl2vl.dump")
      ->check(check_not_empty);
  add("--pattern", options_.pattern,
      "shift:K, permutation, uniform, incast:N, all-to-all, bit-reverse")
      ->capture_default_str();
  add("--message", options_.message_octets, "Octets of a message")
      ->check(CLI::Range(1U, 1U << 30))
      ->capture_default_str();
  add("--load", options_.load_percent, "Of the rate of each sender's link, in per cent")
      ->check(CLI::Range(1U, 100U))
      ->capture_default_str();
  add("--duration", options_.duration, "Virtual time, as 500us, 1ms or 2s")->capture_default_str();
  add("--sl", options_.level, "Service level of all packets")
      ->check(CLI::Range(0U, 15U))
      ->capture_default_str();
  add("--queue-life", options_.queue_life,
      "How long a packet may be the first of its lane: off, or N for 4.096 us * 2^N; without: as "
      "OpenSM sets it")
      ->check(check_not_empty);
  add("--lane-buffer", options_.lane_buffer_kib, "KiB that a port has room for on each lane")
      ->check(CLI::Range(5U, 127U))
      ->capture_default_str();
  add("--hop-delay", options_.hop_delay_ns, "Nanoseconds through a switch and a cable")
      ->check(CLI::Range(1U, 1'000'000U))
      ->capture_default_str();
  sim.add_flag("--json", options_.json, "For machines")->needs(fabric_);
}

int FabricSimCommandLine::run(std::uint64_t seed) {
  options_.seed = seed;
  return run_fabric_sim(options_);
}

}  // namespace verbatim::tools
