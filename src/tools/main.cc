// SPDX-License-Identifier: Apache-2.0
// The `verbatim` command: one subcommand per file beside this one.
#include <CLI/CLI.hpp>
#include <cstdio>

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

  RunOptions run;
  auto* run_subcommand = app.add_subcommand(
      "run", "Start a program with this adapter: it finds our libibverbs before the system's");
  run_subcommand->add_option("--devices", run.devices,
                             "Which interfaces are devices: eth0,lo=vb9 (as VERBATIM_DEVICES)");
  run_subcommand->prefix_command();
  run_subcommand->footer(
      "  verbatim run [--devices LIST] PROGRAM [ARGUMENT...]\n"
      "The program and its children see RDMA devices vb0, vb1, ...; nothing is\n"
      "installed, loaded or changed outside it. Two shells, one machine:\n"
      "  verbatim run ibv_rc_pingpong -d vb0 -g 1\n"
      "  verbatim run ibv_rc_pingpong -d vb0 -g 1 localhost\n"
      "Exit status: the program's own; 127 when it is not found, 126 when it cannot be started,\n"
      "125 when the library or a device of --devices is missing.");

  DevicesOptions devices;
  auto* devices_command =
      app.add_subcommand("devices", "List the devices that programs will see, with their GIDs");
  devices_command->add_flag("--json", devices.json, "For machines: an array of objects");
  devices_command->footer(
      "A GID's index is what `ibv_rc_pingpong -g` and `ib_write_bw -x` take. Which interfaces are\n"
      "devices follows from VERBATIM_DEVICES=interface[=name],...; without it, all that are up\n"
      "and have an address (lo only when there is no other).");

  CLI11_PARSE(app, argc, argv);
  if (*devices_command) return list_devices(devices);
  if (*run_subcommand) {
    run.command = run_subcommand->remaining();
    if (run.command.empty() || run.command.front().starts_with('-')) {
      std::fputs("verbatim run: which program? Try `verbatim run --help`.\n", stderr);
      return 125;
    }
    return run_command(run);
  }
  if (*demo_command) return run_demo(demo);
  if (*seed_option) sim.seed = seed;
  return run_sim(sim);
}
