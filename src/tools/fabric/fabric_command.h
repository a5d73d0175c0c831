// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "fabric/link_error.h"
#include "tools/fabric/capture_limits.h"

namespace verbatim::tools {

/// What a user says to a running fabric, on its console or with `verbatim fabric`.
struct FabricCommand {
  enum class Verb : std::uint8_t {
    kHelp,
    kQuit,
    kLinkUp,
    kLinkDown,
    kLinkError,
    kLinkFaults,
    kLoss,
    kNodeOn,
    kNodeOff,
    kSwitchOn,
    kSwitchOff,
    kDescribe,
    kCapture,
    kCaptureStop,
    kShow,
  };
  enum class View : std::uint8_t {
    kSummary,
    kNodes,
    kLinks,
    kPorts,
    kDrops,
    kCaptures,
    kFaults,
    kRoute,
    kDeadlock,
    kTopology,
  };

  Verb verb = Verb::kHelp;
  View view = View::kSummary;        // kShow
  bool json = false;                 // kShow
  std::vector<std::string> names{};  // of nodes and ports, as the user has written them
  std::uint32_t per_mille = 0;       // kLoss
  fabric::LinkError error{};         // kLinkError
  std::uint32_t count = 1;           // kLinkError
  std::string rules{};               // kLinkFaults
  std::string file{};                // kCapture
  CaptureLimits limits{};            // kCapture
  bool waits = false;                // kCapture: the answer is complete when the capture has ended
};

/// Reads one line, as `link down leaf0[3]`. Words are separated by blanks; quotes keep blanks
/// together, also within a word: "h1 mlx5_0"[2]. On failure `message` says what would be right.
[[nodiscard]] Expected<FabricCommand> parse_fabric_command(std::string_view line,
                                                           std::string& message);

/// A line that is read as these words.
[[nodiscard]] std::string line_of(const std::vector<std::string>& words);

/// All commands with a line about each.
[[nodiscard]] std::string fabric_command_help();

/// A share in per cent, "10", "0.5%", as per mille; nothing when it is none.
[[nodiscard]] Expected<std::uint32_t> parse_per_mille(std::string_view text);

}  // namespace verbatim::tools
