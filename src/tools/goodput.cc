// SPDX-License-Identifier: Apache-2.0
#include "sim/goodput.h"

#include <cstdio>

#include "tools/commands.h"

namespace verbatim::tools {
namespace {

using transport::SendOpcode;

struct Network {
  const char* name;
  unsigned loss_per_mille;
  unsigned other_per_mille;  // reordered; as many are duplicated
};
constexpr Network kNetworks[] = {{"nothing", 0, 0},
                                 {"0.1 % lost", 1, 0},
                                 {"1 % lost", 10, 0},
                                 {"5 % lost", 50, 0},
                                 {"1 % lost, reordered and duplicated", 10, 10},
                                 {"5 % lost, reordered and duplicated", 50, 50}};
constexpr SendOpcode kOpcodes[] = {SendOpcode::kSend, SendOpcode::kWrite, SendOpcode::kRead};

/// Ten gigabits per second and a round trip of 20 us: two hosts and a switch.
sim::Faults faults_of(const Network& network) noexcept {
  return {.loss_per_mille = network.loss_per_mille,
          .duplicate_per_mille = network.other_per_mille,
          .reorder_per_mille = network.other_per_mille,
          .delay = std::chrono::microseconds(10),
          .octets_per_second = 1'250'000'000};
}

}  // namespace

int run_goodput() {
  bool all_intact = true;
  std::puts(
      "64 KiB messages, MTU 1024, 10 Gbit/s, 10 us each way; MB/s, and data packets sent per\n"
      "packet that was needed\n\n"
      "what happens to packets                        SEND         WRITE          READ");
  for (const Network& network : kNetworks) {
    std::printf("%-36s", network.name);
    for (const SendOpcode opcode : kOpcodes) {
      const auto result = sim::measure_goodput({.opcode = opcode, .faults = faults_of(network)});
      all_intact = all_intact && result.is_intact;
      std::printf("  %6.1f x%.2f%s", result.octets_per_second / 1e6, result.frames_per_packet,
                  result.is_intact ? "" : " BROKEN");
    }
    std::puts("");
  }
  return all_intact ? 0 : 1;
}

}  // namespace verbatim::tools
