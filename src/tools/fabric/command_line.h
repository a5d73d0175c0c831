// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tools/fabric/fabric_options.h"

namespace verbatim::tools {

/// `verbatim fabric` and its subcommands on the command line.
class FabricCommandLine {
 public:
  explicit FabricCommandLine(CLI::App& app);

  [[nodiscard]] bool is_chosen() const { return fabric_->parsed(); }
  /// Does what the parsed words say. The exit status.
  [[nodiscard]] int run();

  /// What follows `--` in `verbatim fabric run`; the parser does not see it.
  std::vector<std::string> command{};

 private:
  void add_up();
  void add_run();
  void add_down();
  void add_commands();

  CLI::App* fabric_ = nullptr;
  CLI::App* up_ = nullptr;
  CLI::App* run_ = nullptr;
  CLI::App* down_ = nullptr;
  CLI::App* list_ = nullptr;
  std::vector<CLI::App*> commands_{};  // that the process of the fabric executes
  FabricUpOptions up_options_{};
  FabricRunOptions run_options_{};
  std::string name_{};  // of the fabric that a command is about
  bool json_ = false;
};

}  // namespace verbatim::tools
