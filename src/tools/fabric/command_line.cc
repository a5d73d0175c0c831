// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/command_line.h"

#include <cstdio>

namespace verbatim::tools {
namespace {

// As `verbatim run` has it.
constexpr int kLauncherFailed = 125;

std::string check_not_empty(const std::string& text) {
  return text.empty() ? "a value is missing" : "";
}

void add_settings(CLI::App& command, FabricSettings& settings) {
  command.add_option("topology", settings.topology.file,
                     "A file as ibnetdiscover writes it, or of ibsim");
  command.add_option("--tree", settings.topology.tree, "SWITCHESxHOSTS, as 2x2")
      ->check(check_not_empty);
  command.add_option("--ring", settings.topology.ring, "So many switches, one host each")
      ->check(check_not_empty);
  command.add_option("--fat-tree", settings.topology.fat_tree, "LEAVESxHOSTS/SPINES, as 32x32/16")
      ->check(check_not_empty);
  command.add_option("--torus", settings.topology.torus, "Switches on a torus, as 4x4 or 3x3x3")
      ->check(check_not_empty);
  command.add_option("--rate", settings.topology.rate, "Of all links, as 4xHDR")
      ->check(check_not_empty);
  command
      .add_option("--rates", settings.rates,
                  "How fast links are: real, off (no limit), or 1/N of that, and all times of the "
                  "link layer N times as long")
      ->capture_default_str();
  auto* opensm = command.add_flag("--opensm", settings.opensm.is_wanted,
                                  "Start OpenSM, too, and wait until all ports are Active");
  command
      .add_option("--opensm-node", settings.opensm.node, "Where it runs; without: the first host")
      ->needs(opensm)
      ->check(check_not_empty);
  command
      .add_option("--opensm-options", settings.opensm.arguments,
                  "More of its command line, as '-R ftree'")
      ->needs(opensm);
  command
      .add_option("--timeout", settings.limit_seconds,
                  "How many seconds the ports have to become Active")
      ->check(CLI::Range(1U, 86'400U))
      ->capture_default_str();
  command.add_flag("--strict-switches", settings.has_strict_switches,
                   "Switches show speeds above QDR only to a manager that asks for them");
  command.add_option("--loss", settings.loss, "Management datagrams lost, in per cent")
      ->check(check_not_empty);
  command
      .add_option("--faults", settings.faults,
                  "A file with faults of links, a line for each: link leaf0[3] out drop 1%")
      ->check(check_not_empty);
  command
      .add_option("--capture", settings.captures,
                  "Write what passes a port to a pcapng file: PORT=FILE; may be repeated")
      ->take_all();
  command.add_option("--seed", settings.seed, "Determines which are lost, and what faults hit")
      ->capture_default_str();
}

}  // namespace

FabricCommandLine::FabricCommandLine(CLI::App& app)
    : fabric_(
          app.add_subcommand("fabric", "An InfiniBand subnet in software, which OpenSM manages")) {
  fabric_->require_subcommand(1);
  fabric_->footer(
      "Two switches and four hosts, with OpenSM, in one terminal, and a look in another one:\n"
      "  verbatim fabric up demo --tree 2x2 --opensm\n"
      "  verbatim run --fabric demo --node h0 ibnetdiscover\n"
      "`verbatim fabric run --tree 2x2 --opensm -- PROGRAM` does all that for one program.\n"
      "docs/FABRIC.md says more.");
  add_up();
  add_run();
  add_down();
  add_commands();
}

void FabricCommandLine::add_up() {
  up_ = fabric_->add_subcommand("up", "Be a fabric, with a console, until `quit` or a signal");
  up_->add_option("name", up_options_.name, "By which programs find it; or a path, with a slash")
      ->required()
      ->check(check_not_empty);
  add_settings(*up_, up_options_.settings);
  up_->add_flag("-d,--detach", up_options_.is_detached, "Run in the background");
}

void FabricCommandLine::add_run() {
  run_ = fabric_->add_subcommand("run", "Be a fabric as long as a program runs");
  add_settings(*run_, run_options_.settings);
  run_->add_option("--node", run_options_.node, "Where the program runs; without: the first host")
      ->check(check_not_empty);
  run_->footer(
      "  verbatim fabric run [OPTION...] [TOPOLOGY] -- PROGRAM [ARGUMENT...]\n"
      "Exit status: the program's own; 127 when it is not found, 126 when it cannot be started,\n"
      "125 when the fabric does not come up.");
}

void FabricCommandLine::add_down() {
  down_ = fabric_->add_subcommand("down", "End a fabric");
  down_->add_option("name", name_, "Without: the only one")->check(check_not_empty);
  list_ = fabric_->add_subcommand("list", "List the fabrics that run");
  list_->add_flag("--json", json_, "For machines: an array of names");
}

void FabricCommandLine::add_commands() {
  struct Command {
    const char* name = nullptr;
    const char* help = nullptr;
    const char* forms = nullptr;
  };
  for (const Command& one : std::vector<Command>{
           {"link", "Pull cables out, plug them in, make errors",
            "  link down|up PORT     as leaf0[3]; h0 is enough for a host with one port\n"
            "  link loss PORT PERCENT\n"
            "  link faults PORT RULES|none   as 'out drop 1%; in corrupt every=100'\n"
            "  link error PORT symbol|recovery|integrity|overrun|watchdog [COUNT]"},
           {"node", "Take the power of a node away, and give it back",
            "  node off|on NODE      a host or a switch\n"
            "  node describe NODE TEXT"},
           {"switch", "Take the power of a switch away, and give it back", "  switch off|on NODE"},
           {"loss", "Lose management datagrams on purpose", "  loss PERCENT"},
           {"capture", "Write what passes a port to a pcapng file, for Wireshark",
            "  capture PORT FILE [--for SECONDS] [--count N]\n"
            "                        until Ctrl-C, such a time or so many packets\n"
            "  capture stop PORT     end one that was started elsewhere"},
           {"show", "Show what there is",
            "  show                  how many there are of what\n"
            "  show nodes|links|drops|faults|captures|topology\n"
            "  show deadlock         lanes that wait for each other for ever\n"
            "  show ports [NODE]\n"
            "  show route FROM TO    the way of a packet by its LID, as h0 h3"}}) {
    CLI::App* added = fabric_->add_subcommand(one.name, one.help);
    added->add_option("--fabric", name_, "Without: VERBATIM_FABRIC, or the only one that runs")
        ->check(check_not_empty);
    if (std::string(one.name) == "show") {
      added->add_flag("--json", json_, "For machines");
    }
    added->allow_extras();
    added->footer(one.forms);
    commands_.push_back(added);
  }
}

int FabricCommandLine::run() {
  if (up_->parsed()) return run_fabric_up(up_options_);
  if (down_->parsed()) return run_fabric_down(name_);
  if (list_->parsed()) return run_fabric_list(json_);
  if (run_->parsed()) {
    if (command.empty()) {
      std::fputs(
          "verbatim fabric run: a program is missing behind `--`. Try `verbatim fabric run "
          "--help`.\n",
          stderr);
      return kLauncherFailed;
    }
    run_options_.command = command;
    return run_fabric_run(run_options_);
  }
  for (const CLI::App* chosen : commands_) {
    if (!chosen->parsed()) continue;
    std::vector<std::string> words{chosen->get_name()};
    for (const std::string& word : chosen->remaining()) words.push_back(word);
    if (json_) words.emplace_back("--json");
    if (words.front() == "capture") return run_fabric_capture(name_, words);
    return run_fabric_command(name_, words);
  }
  return 1;
}

}  // namespace verbatim::tools
