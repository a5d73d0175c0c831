// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>

#include "sim/history.h"
#include "tools/commands.h"
#include "tools/ladder.h"

namespace verbatim::tools {
namespace {

unsigned long long wide(std::uint64_t value) noexcept { return value; }

bool run_one(std::uint64_t seed, bool ladder_wanted) {
  Ladder ladder(stdout, sim::ipv4_gid(10, 0, 0, 1), isatty(STDOUT_FILENO) != 0);
  const auto options = sim::HistoryOptions::random(seed);
  const auto result = sim::run_history(options, ladder_wanted ? &ladder : nullptr);
  const bool good = result.complaint.empty();
  if (ladder_wanted || !good) {
    std::printf("seed %llu: %llu frames, trace %016llx: %s\n", wide(seed), wide(result.frames),
                wide(result.trace), good ? "as modelled" : result.complaint.c_str());
  }
  return good;
}

}  // namespace

int run_sim(const SimOptions& options) {
  if (options.seed) return run_one(*options.seed, true) ? 0 : 1;
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = 1; seed <= options.histories; ++seed) {
    if (!run_one(seed, options.ladder)) ++wrong;
  }
  std::printf("%llu histories, %llu went wrong\n", wide(options.histories), wide(wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace verbatim::tools
