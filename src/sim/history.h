// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "sim/cluster.h"
#include "sim/workload.h"

namespace verbatim::sim {

/// One run: connections between two endpoints, random requests in both directions over a bad
/// network, and all checks after every step. Everything follows from the options.
struct HistoryOptions {
  std::uint64_t seed = 1;
  Faults faults{};
  Connection connection{};
  std::uint32_t pair_count = 1;  // connections side by side
  Workload::Limits workload{};
  std::uint32_t window_packets = 64;
  std::uint32_t read_chunk_packets = 16;
  std::uint32_t send_depth = 16;
  std::uint32_t receive_depth = 16;
  bool first_polls = false;  // the program of the first endpoint makes progress, else its engine
  bool second_polls = false;
  bool hostile = false;  // a third endpoint sends arbitrary packets
  std::uint64_t step_limit = 400'000;
  MemorySource* shared = nullptr;

  /// A random mixture: loss up to 30 %, PSN wrap, every MTU, small and large windows.
  static HistoryOptions random(std::uint64_t seed);
};

struct HistoryResult {
  std::string complaint;    // empty: no check has failed
  std::uint64_t trace = 0;  // equal for equal histories
  std::uint64_t frames = 0;
  bool every_request_done = false;  // false: the retry limit was reached, which is allowed
  std::uint64_t delivered_octets = 0;
  Duration duration{0};  // of simulated time
};

[[nodiscard]] HistoryResult run_history(const HistoryOptions& options,
                                        Observer* observer = nullptr);

}  // namespace verbatim::sim
