// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "fabric/routing/plan_routes.h"
#include "fabric/routing/set_up_subnet.h"
#include "sim/fabric/fabric_load.h"

namespace verbatim::tools {

/// What `verbatim sim --fabric` is asked to do, as the user has written it.
struct FabricSimOptions {
  std::string fabric{};  // a file, or a shape: tree:2x2, ring:6, fat-tree:32x32/16, torus:4x4
  std::string rate{};    // of all links of a shape; empty: 4xEDR
  std::string lft{};     // a dump of forwarding tables; empty: `routing` makes them
  std::string lanes{};   // a dump of lanes; empty: as after the start of ports
  std::string routing = "minhop";
  std::string pattern = "uniform";
  std::string duration = "1ms";
  std::string queue_life{};  // "off", or a code from 0 to 31; empty: as OpenSM sets it
  std::uint32_t message_octets = 65'536;
  std::uint32_t load_percent = 100;
  std::uint32_t level = 0;
  std::uint32_t lane_buffer_kib = 16;
  std::uint32_t hop_delay_ns = 150;
  std::uint64_t seed = 1;
  bool json = false;
};

/// Runs the traffic in virtual time and prints what became of it. The exit status: 0; 1 when a
/// deadlock was found; 2 when the options or a file are wrong.
[[nodiscard]] int run_fabric_sim(const FabricSimOptions& options);

/// A time as "500us", "1ms", "2s"; on failure `message` says what would be right.
[[nodiscard]] Expected<Duration> parse_duration(std::string_view text, std::string& message);

}  // namespace verbatim::tools
