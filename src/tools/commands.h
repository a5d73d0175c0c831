// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace verbatim::tools {

struct DemoOptions {
  std::uint64_t seed = 2;
  unsigned loss_percent = 20;
};
/// One WRITE, one READ and one SEND over a lossy network, as a ladder. The exit status.
[[nodiscard]] int run_demo(const DemoOptions& options);

struct SimOptions {
  std::optional<std::uint64_t> seed;  // this one history; otherwise `histories` of them
  std::uint64_t histories = 100;
  bool ladder = false;
};
/// Random histories with all checkers on. The exit status is 1 when one goes wrong.
[[nodiscard]] int run_sim(const SimOptions& options);

}  // namespace verbatim::tools
