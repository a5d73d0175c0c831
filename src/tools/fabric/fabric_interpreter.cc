// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_interpreter.h"

#include <optional>
#include <utility>

#include "fabric/topology/write_topology.h"
#include "tools/fabric/deadlock_view.h"
#include "tools/fabric/fabric_names.h"
#include "tools/fabric/fabric_view.h"

namespace verbatim::tools {
namespace {

using Verb = FabricCommand::Verb;
using View = FabricCommand::View;

CommandAnswer refusal(std::string why) { return {.is_done = false, .text = std::move(why) + "\n"}; }
CommandAnswer done(std::string text) { return {.text = std::move(text)}; }

std::string per_cent(std::uint32_t per_mille) {
  const std::string tenths = per_mille % 10 != 0 ? "." + std::to_string(per_mille % 10) : "";
  return std::to_string(per_mille / 10) + tenths + " %";
}

}  // namespace

CommandAnswer FabricInterpreter::execute(Instant now, std::string_view line) {
  std::string message;
  const auto command = parse_fabric_command(line, message);
  if (!command) return refusal(std::move(message));
  return execute(now, *command);
}

CommandAnswer FabricInterpreter::execute(Instant now, const FabricCommand& command) {
  switch (command.verb) {
    case Verb::kHelp:
      return done(fabric_command_help());
    case Verb::kQuit:
      return {.quits = true};
    case Verb::kLinkUp:
    case Verb::kLinkDown:
      return set_cable(now, command);
    case Verb::kLinkError:
      return report_errors(now, command);
    case Verb::kLinkFaults:
      return set_faults(command);
    case Verb::kLoss:
      return set_loss(command);
    case Verb::kNodeOn:
    case Verb::kNodeOff:
    case Verb::kSwitchOn:
    case Verb::kSwitchOff:
      return set_power(now, command);
    case Verb::kDescribe:
      return describe(now, command);
    case Verb::kCapture:
      return capture(now, command);
    case Verb::kCaptureStop:
      return stop_capture(command);
    case Verb::kShow:
      return show(command);
  }
  return refusal("unknown command");
}

CommandAnswer FabricInterpreter::set_cable(Instant now, const FabricCommand& command) {
  std::string message;
  const auto port = names_.find_port(command.names[0], message);
  if (!port) return refusal(std::move(message));
  const bool plugs_in = command.verb == Verb::kLinkUp;
  if (!fabric_.set_cable(now, *port, plugs_in)) {
    return refusal(names_.name_of(*port) + " has no link in the topology");
  }
  const auto peer = fabric_.peer_of(*port);
  return done("link " + names_.name_of(*port) + (peer ? " - " + names_.name_of(*peer) : "") +
              (plugs_in ? " is plugged in\n" : " is pulled out\n"));
}

CommandAnswer FabricInterpreter::set_power(Instant now, const FabricCommand& command) {
  std::string message;
  const auto node = names_.find(command.names[0], message);
  if (!node) return refusal(std::move(message));
  const bool is_for_switches = command.verb == Verb::kSwitchOn || command.verb == Verb::kSwitchOff;
  const bool is_switch = fabric_.topology().nodes[*node].kind == fabric::NodeKind::kSwitch;
  if (is_for_switches && !is_switch) {
    return refusal(names_.name_of(*node) + " is not a switch; `node on` and `node off` take it");
  }
  const bool on = command.verb == Verb::kNodeOn || command.verb == Verb::kSwitchOn;
  fabric_.set_power(now, *node, on);
  return done(names_.name_of(*node) + (on ? " has power\n" : " has no power\n"));
}

CommandAnswer FabricInterpreter::set_loss(const FabricCommand& command) {
  const std::string share = per_cent(command.per_mille) + " of ";
  if (command.names.empty()) {
    fabric_.set_loss(command.per_mille);
    return done(share + "management datagrams are lost\n");
  }
  std::string message;
  const auto port = names_.find_port(command.names[0], message);
  if (!port) return refusal(std::move(message));
  if (!fabric_.set_link_loss(*port, command.per_mille)) {
    return refusal(names_.name_of(*port) + " has no link in the topology");
  }
  return done(share + "packets are lost on the link of " + names_.name_of(*port) + "\n");
}

CommandAnswer FabricInterpreter::set_faults(const FabricCommand& command) {
  std::string message;
  const auto port = names_.find_port(command.names[0], message);
  if (!port || !faults_.set(*port, command.rules, message)) return refusal(std::move(message));
  const bool are_none = command.rules == FabricFaults::kNone;
  return done("the link of " + names_.name_of(*port) +
              (are_none ? " has no faults\n" : " has faults: " + command.rules + "\n"));
}

CommandAnswer FabricInterpreter::report_errors(Instant now, const FabricCommand& command) {
  std::string message;
  const auto port = names_.find_port(command.names[0], message);
  if (!port) return refusal(std::move(message));
  for (std::uint32_t count = 0; count < command.count; ++count) {
    fabric_.report_link_error(now, *port, command.error);
  }
  return done(names_.name_of(*port) + " has counted " + std::to_string(command.count) + " more\n");
}

CommandAnswer FabricInterpreter::describe(Instant now, const FabricCommand& command) {
  std::string message;
  const auto node = names_.find(command.names[0], message);
  if (!node) return refusal(std::move(message));
  if (command.names[1].size() > fabric::Topology::kDescriptionMax) {
    return refusal("the description has " + std::to_string(command.names[1].size()) +
                   " octets; NodeDescription has room for " +
                   std::to_string(fabric::Topology::kDescriptionMax));
  }
  fabric_.set_description(now, *node, command.names[1]);
  return done(names_.name_of(*node) + " has a new description\n");
}

CommandAnswer FabricInterpreter::capture(Instant now, const FabricCommand& command) {
  std::string message;
  const auto port = names_.find_port(command.names[0], message);
  if (!port) return refusal(std::move(message));
  const std::string name = names_.name_of(*port);
  const auto started = captures_.start(
      now, {.port = *port, .port_name = name, .file = command.file, .limits = command.limits},
      message);
  if (!started) return refusal(std::move(message));
  CommandAnswer answer = done("capturing " + name + " to '" + command.file + "'\n");
  answer.has_captured = *port;
  answer.waits = command.waits;
  return answer;
}

CommandAnswer FabricInterpreter::stop_capture(const FabricCommand& command) {
  std::string message;
  const auto port = names_.find_port(command.names[0], message);
  if (!port) return refusal(std::move(message));
  if (!captures_.stop(*port)) return refusal(names_.name_of(*port) + " is not being captured");
  return done("");
}

CommandAnswer FabricInterpreter::show(const FabricCommand& command) {
  const FabricView view{fabric_, names_, addresses_};
  switch (command.view) {
    case View::kSummary: {
      const FabricSummary summary = summary_of(view);
      return done(command.json ? text_of(json_of(summary)) : text_of(summary));
    }
    case View::kNodes:
      return done(command.json ? text_of(nodes_json(view)) : nodes_text(view));
    case View::kLinks:
      return done(command.json ? text_of(links_json(view)) : links_text(view));
    case View::kPorts:
      return show_ports(command);
    case View::kDrops:
      return done(command.json ? text_of(drops_json(view)) : drops_text(view));
    case View::kCaptures:
      return done(command.json ? text_of(captures_json(captures_.running()))
                               : captures_text(captures_.running()));
    case View::kFaults:
      return done(command.json ? text_of(faults_.json()) : faults_.text());
    case View::kRoute:
      return show_route(command);
    case View::kDeadlock: {
      const DeadlockReport report = deadlocks_of(view);
      return done(command.json ? text_of(deadlock_json(view, report))
                               : deadlock_text(view, report));
    }
    case View::kTopology:
      if (command.json) return refusal("a topology has no JSON form; `show links --json` has one");
      return done(fabric::write_topology(fabric_.topology()));
  }
  return refusal("unknown view");
}

CommandAnswer FabricInterpreter::show_ports(const FabricCommand& command) {
  const FabricView view{fabric_, names_, addresses_};
  std::optional<std::uint32_t> only;
  if (!command.names.empty()) {
    std::string message;
    const auto node = names_.find(command.names[0], message);
    if (!node) return refusal(std::move(message));
    only = *node;
  }
  return done(command.json ? text_of(ports_json(view, only)) : ports_text(view, only));
}

Expected<fabric::PortEnd> FabricInterpreter::find_end(std::string_view name,
                                                      std::string& message) const {
  if (name.ends_with(']')) return names_.find_port(name, message);
  const auto node = names_.find(name, message);
  if (!node) return node.error();
  return fabric::PortEnd{*node, management_port_of(fabric_.topology().nodes[*node])};
}

CommandAnswer FabricInterpreter::show_route(const FabricCommand& command) {
  std::string message;
  const auto from = find_end(command.names[0], message);
  if (!from) return refusal(std::move(message));
  const auto to = find_end(command.names[1], message);
  if (!to) return refusal(std::move(message));
  if (from->port == 0) {
    return refusal("the way begins at a port of a host; " + names_.name_of(from->node) +
                   " is a switch");
  }
  const FabricView view{fabric_, names_, addresses_};
  const FabricRoute route = route_between(view, *from, *to);
  return {.is_done = route.obstacle.empty(),
          .text = command.json ? text_of(route_json(view, route)) : route_text(view, route)};
}

}  // namespace verbatim::tools
