// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "tools/fabric/sim_options.h"

namespace verbatim::tools {

/// The options of `verbatim sim --fabric`.
class FabricSimCommandLine {
 public:
  explicit FabricSimCommandLine(CLI::App& sim);

  [[nodiscard]] bool is_chosen() const { return fabric_->count() != 0; }
  /// The options that must not stand beside --fabric exclude this one.
  [[nodiscard]] CLI::Option* fabric_option() noexcept { return fabric_; }
  [[nodiscard]] int run(std::uint64_t seed);

 private:
  CLI::Option* fabric_ = nullptr;
  FabricSimOptions options_{};
};

}  // namespace verbatim::tools
