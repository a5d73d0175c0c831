// SPDX-License-Identifier: Apache-2.0
// The `verbatim` command: one subcommand per file beside this one.
#include <CLI/CLI.hpp>

#include "tools/commands.h"

int main(int argc, char** argv) {
  using namespace verbatim::tools;
  CLI::App app{"Verbatim: an RDMA adapter made of software."};
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);

  DemoOptions demo;
  auto* demo_command = app.add_subcommand(
      "demo", "One WRITE, one READ and one SEND over a lossy network, printed packet by packet");
  demo_command->add_option("--seed", demo.seed, "Which packets are lost follows from this number")
      ->capture_default_str();
  demo_command->add_option("--loss", demo.loss_percent, "Packets lost, in per cent")
      ->check(CLI::Range(0, 60))
      ->capture_default_str();

  SimOptions sim;
  std::uint64_t seed = 0;
  auto* sim_command = app.add_subcommand(
      "sim", "Random histories of whole connections over bad networks, every check on");
  auto* seed_option =
      sim_command->add_option("--seed", seed, "Replay this one history as a ladder");
  sim_command->add_option("--histories", sim.histories, "How many to run, seeds 1 to this")
      ->capture_default_str();

  CLI11_PARSE(app, argc, argv);
  if (*demo_command) return run_demo(demo);
  if (*seed_option) sim.seed = seed;
  return run_sim(sim);
}
