// SPDX-License-Identifier: Apache-2.0
// The `verbatim` command: one subcommand per file beside this one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/version.h"
#include "tools/commands.h"
#include "tools/fabric/command_line.h"
#include "tools/fabric/sim_command_line.h"

namespace {

// Exit statuses.
constexpr int kWrongCommandLine = 2;
constexpr int kNotRun = 125;  // by `verbatim run`: a status that programs seldom have

/// The option parser itself would read -1 as a large number, and truncate too many digits.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  const auto check = [=](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    const bool is_number = parsed.ec == std::errc{} && parsed.ptr == end;
    if (is_number && value >= least && value <= most) return {};
    return "'" + text + "' is not a whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
  };
  return {check, ""};
}
constexpr std::uint64_t kMaxSeed = std::numeric_limits<std::uint64_t>::max();

std::string check_not_empty(const std::string& text) {
  return text.empty() ? "a value is missing" : "";
}

/// Takes the program of `verbatim fabric run` and the `--` before it off the command line.
std::vector<std::string> take_fabric_program(int& argc, char** argv) {
  if (argc < 3 || std::string_view(argv[1]) != "fabric" || std::string_view(argv[2]) != "run") {
    return {};
  }
  int at = 3;
  while (at < argc && std::string_view(argv[at]) != "--") ++at;
  std::vector<std::string> program(argv + std::min(at + 1, argc), argv + argc);
  argc = std::min(at, argc);
  return program;
}

/// The words of the command line without the `--` that may stand between the options of
/// `verbatim run` and the program. The parser would keep it, and a later `--` is the program's.
std::vector<char*> without_separator(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || std::string_view(words[1]) != "run") return words;
  std::size_t at = 2;
  while (at + 1 < words.size()) {
    const std::string_view word = words[at];
    if (word == "--") {
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    }
    const bool is_option = word.starts_with("--") && word != "--help";
    if (!is_option) break;
    at += word.find('=') != word.npos ? 1U : 2U;  // each option of `run` has a value
  }
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace verbatim::tools;
  CLI::App app{"Verbatim: an RDMA adapter made of software."};
  app.require_subcommand(0, 1);  // so that the message names an unknown command
  app.failure_message(CLI::FailureMessage::help);
  app.set_version_flag("--version", std::string("verbatim ") + verbatim::kVersionText,
                       "Print the version of this command, which is that of its libraries");

  DemoOptions demo;
  auto* demo_command = app.add_subcommand(
      "demo", "One WRITE, one READ and one SEND over a lossy network, printed packet by packet");
  demo_command->add_option("--seed", demo.seed, "Determines which packets are lost")
      ->check(whole_number(0, kMaxSeed))
      ->capture_default_str();
  demo_command->add_option("--loss", demo.loss_percent, "Packets lost, in per cent")
      ->check(whole_number(0, 60))
      ->capture_default_str();

  SimOptions sim;
  std::uint64_t seed = 0;
  auto* sim_command = app.add_subcommand(
      "sim", "Random histories of whole connections over bad networks, every check on");
  auto* seed_option =
      sim_command
          ->add_option("--seed", seed,
                       "Replay this one history as a ladder; with --fabric: the seed")
          ->check(whole_number(0, kMaxSeed));
  sim_command->add_option("--histories", sim.histories, "How many to run, seeds 1 to this")
      ->check(whole_number(1, 1'000'000'000))
      ->capture_default_str();

  bool goodput = false;
  sim_command
      ->add_flag("--goodput", goodput,
                 "Instead: what a connection carries at several rates of loss")
      ->excludes(seed_option);
  FabricSimCommandLine fabric_sim(*sim_command);
  fabric_sim.fabric_option()->excludes("--goodput")->excludes("--histories");
  sim_command->footer(
      "A ring that deadlocks, the same way each time, and its tables as they are and with updn:\n"
      "  verbatim sim --fabric ring:6 --pattern shift:2 --queue-life off --seed 42\n"
      "  verbatim sim --fabric ring:6 --pattern shift:2 --routing updn\n"
      "Exit status: 1 when a history goes wrong, or when a deadlock was found on the fabric.\n"
      "docs/FABRIC.md says more.");

  RunOptions run;
  auto* run_subcommand = app.add_subcommand(
      "run",
      "Start a program with this adapter: it finds Verbatim's libibverbs before the system's");
  auto* run_devices =
      run_subcommand
          ->add_option("--devices", run.devices,
                       "Which interfaces are devices: eth0,lo=vb9 (as VERBATIM_DEVICES)")
          ->check(check_not_empty);
  run_subcommand
      ->add_option("--faults", run.faults,
                   "Faults on purpose: 'seed=7; out drop 1%' (as VERBATIM_FAULTS)")
      ->check(check_not_empty);
  run_subcommand
      ->add_option("--capture", run.capture,
                   "Write all packets to this pcapng file; %p is the process's number")
      ->check(check_not_empty);
  auto* run_fabric =
      run_subcommand
          ->add_option("--fabric", run.fabric,
                       "Instead: run it in this fabric of `verbatim fabric`, with its libibumad")
          ->excludes(run_devices)
          ->check(check_not_empty);
  run_subcommand
      ->add_option("--node", run.node, "On which node of the fabric, as h0 (as VERBATIM_NODE)")
      ->needs(run_fabric)
      ->check(check_not_empty);
  run_subcommand->prefix_command();
  run_subcommand->footer(
      "  verbatim run [--devices LIST] [--faults RULES] [--capture FILE] [--] PROGRAM "
      "[ARGUMENT...]\n"
      "  verbatim run --fabric NAME --node NODE [--faults RULES] [--capture FILE] [--] PROGRAM\n"
      "The program and its children see RDMA devices vb0, vb1, ...; nothing is\n"
      "installed, loaded or changed outside it. Two shells, one machine:\n"
      "  verbatim run ibv_rc_pingpong -d vb0 -g 1\n"
      "  verbatim run ibv_rc_pingpong -d vb0 -g 1 localhost\n"
      "Exit status: the program's own; 127 when it is not found, 126 when it cannot be started,\n"
      "125 when the library, the fabric, its node or a device of --devices is missing, a rule of\n"
      "--faults has a mistake in it, or the file of --capture cannot be written.");

  DevicesOptions devices;
  auto* devices_command =
      app.add_subcommand("devices", "List the devices that programs will see, with their GIDs");
  devices_command->add_flag("--json", devices.json, "For machines: an array of objects");
  devices_command->footer(
      "A GID's index is what `ibv_rc_pingpong -g` and `ib_write_bw -x` take. Which interfaces are\n"
      "devices follows from VERBATIM_DEVICES=interface[=name],...; without it, all that are up\n"
      "and have an address (lo only when there is no other).");

  DoctorOptions doctor;
  auto* doctor_command = app.add_subcommand(
      "doctor", "Check what could keep programs from working here, and say what to do");
  doctor_command->add_flag("--json", doctor.json, "For machines: an array of findings");
  doctor_command->add_option("--program", doctor.program, "Look at this program's libraries, too")
      ->check(check_not_empty);
  auto* doctor_peer =
      doctor_command
          ->add_option("--peer", doctor.peer,
                       "Check the path to this host instead, which runs `doctor --serve`")
          ->check(check_not_empty);
  doctor_command->add_flag("--serve", doctor.serve, "Be the host that others check the path to")
      ->excludes(doctor_peer);
  doctor_command
      ->add_option("--port", doctor.control_port, "TCP port that --serve and --peer talk over")
      ->check(whole_number(1, 65535))
      ->capture_default_str();
  doctor_command->footer(
      "Two hosts, to see what happens to packets between them:\n"
      "  verbatim doctor --serve          on one; as root it also sees IPv4 identifications\n"
      "  verbatim doctor --peer HOST      on the other\n"
      "Exit status: 1 when something is a problem, 0 otherwise.");

  StatOptions stat;
  auto* stat_command = app.add_subcommand(
      "stat",
      "Show the processes of this host that use the adapter, and what their queue pairs do");
  auto* stat_json =
      stat_command->add_flag("--json", stat.json, "For machines: one object, with rates");
  stat_command->add_flag("--all", stat.all, "Every queue pair, not the 20 busiest of each process");
  auto* stat_watch = stat_command
                         ->add_flag("--watch", stat.watch,
                                    "Refresh until interrupted, which is the rule on a terminal")
                         ->excludes(stat_json);
  stat_command->add_flag("--once", stat.once, "Do not refresh")->excludes(stat_watch);
  stat_command->add_option("--interval", stat.interval_seconds, "Seconds between two refreshes")
      ->check(whole_number(1, 3600))
      ->capture_default_str();
  stat_command->footer(
      "Two processes that write to each other, and a look at them from outside:\n"
      "  verbatim run ib_write_bw -D 30 &\n"
      "  verbatim run ib_write_bw -D 30 localhost &\n"
      "  verbatim stat\n"
      "Shown are the processes of this user in this network namespace. `path` is how requests\n"
      "travel: direct (in the peer's memory), packets, undecided (no request yet), both (one way\n"
      "each). `out` counts the queue pair's own requests, `in` those of its peer. Memory is "
      "shared\n"
      "(peers map it), cma (peers use a descriptor that it lends them) or its owner moves the "
      "octets.\n"
      "docs/STAT.md says more.");

  FabricCommandLine fabric(app);
  fabric.command = take_fabric_program(argc, argv);

  const std::vector<char*> words = without_separator(argc, argv);
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return 0;  // --help, --version
    return *run_subcommand ? kNotRun : kWrongCommandLine;
  }
  if (app.get_subcommands().empty()) {
    std::fprintf(stderr, "verbatim: a command is missing\n%s", app.help().c_str());
    return kWrongCommandLine;
  }
  if (fabric.is_chosen()) return fabric.run();
  if (*doctor_command) return run_doctor(doctor);
  if (*devices_command) return list_devices(devices);
  if (*stat_command) return run_stat(stat);
  if (*run_subcommand) {
    run.command = run_subcommand->remaining();
    const bool has_word = !run.command.empty() && run.command.front() != "--";
    if (has_word && run.command.front().starts_with('-')) {
      std::fprintf(stderr, "verbatim run: there is no option '%s'. Try `verbatim run --help`.\n",
                   run.command.front().c_str());
      return kNotRun;
    }
    if (!has_word) {
      std::fputs("verbatim run: a program is missing. Try `verbatim run --help`.\n", stderr);
      return kNotRun;
    }
    return run_command(run);
  }
  if (*demo_command) return run_demo(demo);
  if (fabric_sim.is_chosen()) return fabric_sim.run(*seed_option ? seed : 1);
  if (goodput) return run_goodput();
  if (*seed_option) sim.seed = seed;
  return run_sim(sim);
}
