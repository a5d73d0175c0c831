// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_faults.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "fabric/topology/line_scanner.h"
#include "link/fault_rules.h"
#include "tools/fabric/text_table.h"

namespace verbatim::tools {

Status FabricFaults::set(fabric::PortEnd port, const std::string& rules, std::string& message) {
  const auto peer = fabric_.peer_of(port);
  if (!peer) {
    message = names_.name_of(port) + " has no link in the topology";
    return Errc::kInvalidArgument;
  }
  link::FaultRules parsed;
  if (rules != kNone) {
    auto read = link::parse_fault_rules(rules, message);
    if (!read) {
      message += "\n  " + rules;
      return read.error();
    }
    parsed = std::move(*read);
    message = fabric::objection_to(parsed);
    if (message.empty() && parsed.rules.empty()) {
      message = "there is no rule, as out drop 1%; `none` takes the rules away";
    }
    if (!message.empty()) return Errc::kInvalidArgument;
  }
  std::erase_if(links_, [&](const Link& each) { return each.port == port || each.port == *peer; });
  if (!parsed.rules.empty()) links_.push_back({.port = port, .rules = rules});
  (void)fabric_.set_link_faults(port, parsed);  // it has a link
  return Ok{};
}

std::string FabricFaults::text() const {
  if (links_.empty()) return "no link has faults\n";
  std::vector<std::vector<std::string>> rows{
      {"PORT", "DIRECTION", "DROPPED", "DAMAGED", "DELAYED", "RULES"}};
  for (const Link& link : links_) {
    const auto row = [&](fabric::PortEnd from, const char* direction, const std::string& rules) {
      const fabric::LinkFaultCounts counts = fabric_.link_fault_counts(from);
      rows.push_back({names_.name_of(link.port), direction, std::to_string(counts.dropped),
                      std::to_string(counts.damaged), std::to_string(counts.delayed), rules});
    };
    row(link.port, "out", link.rules);
    row(*fabric_.peer_of(link.port), "in", "");
  }
  return table_of(rows);
}

Json FabricFaults::json() const {
  Json list = Json::array();
  for (const Link& link : links_) {
    const auto counts = [&](fabric::PortEnd from) {
      const fabric::LinkFaultCounts hit = fabric_.link_fault_counts(from);
      return Json{{"dropped", hit.dropped}, {"damaged", hit.damaged}, {"delayed", hit.delayed}};
    };
    list.push_back({{"port", names_.name_of(link.port)},
                    {"rules", link.rules},
                    {"out", counts(link.port)},
                    {"in", counts(*fabric_.peer_of(link.port))}});
  }
  return list;
}

Expected<std::vector<FaultLine>> read_fault_file(const std::string& path, std::string& message) {
  constexpr std::string_view kBlanks = " \t\r";
  std::ifstream file(path);
  if (!file) {
    message = "cannot read '" + path + "': " + std::strerror(errno);
    return Errc::kNoSuchObject;
  }
  std::vector<FaultLine> lines;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const std::size_t start = line.find_first_not_of(kBlanks);
    if (start == std::string::npos || line[start] == '#') continue;
    const std::string_view text = std::string_view(line).substr(start);
    const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    if (word != "link") {
      message = path + ":" + std::to_string(number) + ": " + fabric::in_quotes(std::string(word)) +
                " is not expected; a line is link PORT RULES, as link leaf0[3] out drop 1%";
      return Errc::kInvalidArgument;
    }
    lines.push_back(
        {.number = number, .command = "link faults" + std::string(text.substr(word.size()))});
  }
  return lines;
}

}  // namespace verbatim::tools
