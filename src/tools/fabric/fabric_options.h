// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/fabric/opensm.h"
#include "tools/fabric/topology_choice.h"

namespace verbatim::tools {

/// What a new fabric is made of.
struct FabricSettings {
  TopologyChoice topology;
  OpensmOptions opensm;
  std::string loss;            // of management datagrams, in per cent; empty: none
  std::uint64_t seed = 1;      // determines which are lost, and what the faults hit
  std::string faults;          // a file with those of links; empty: none
  std::string rates = "real";  // of links, as parse_slowdown() reads it
  // Switches show speeds above QDR only to a manager that asks for them.
  bool has_strict_switches = false;
  std::vector<std::string> captures;  // PORT=FILE each: from the beginning to the end
  unsigned limit_seconds = 60;        // for the ports to become Active
};

struct FabricUpOptions {
  std::string name;
  FabricSettings settings;
  bool is_detached = false;
};
/// Is the process of a fabric until a user or a signal ends it. The exit status.
[[nodiscard]] int run_fabric_up(const FabricUpOptions& options);

struct FabricRunOptions {
  FabricSettings settings;
  std::string node;                  // where the command runs; empty: the first host
  std::vector<std::string> command;  // not empty
};
/// Is the process of a fabric as long as a command runs. Returns its exit status, 125 when the
/// fabric does not come up, 126 or 127 when the command cannot be started.
[[nodiscard]] int run_fabric_run(const FabricRunOptions& options);

/// Ends a fabric and waits until it has ended. The exit status.
[[nodiscard]] int run_fabric_down(const std::string& fabric);
/// Prints the fabrics that run. The exit status.
[[nodiscard]] int run_fabric_list(bool json);
/// Sends the words as a command to a fabric, and prints the answer. The exit status.
[[nodiscard]] int run_fabric_command(const std::string& fabric,
                                     const std::vector<std::string>& words);
/// The same for `capture PORT FILE`: prints when it begins, and waits until it has ended. A signal
/// ends it.
[[nodiscard]] int run_fabric_capture(const std::string& fabric,
                                     const std::vector<std::string>& words);

}  // namespace verbatim::tools
