// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/read_forwarding_dump.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fabric/routing/guid_index.h"
#include "fabric/routing/wiring.h"
#include "fabric/topology/guid_text.h"
#include "fabric/topology/line_scanner.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint64_t kGuidMax = std::numeric_limits<std::uint64_t>::max();
constexpr unsigned kMaskControlMax = 7;  // LMC has three bits

/// Lines between the rows that say nothing that a table needs.
bool says_nothing(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 5> kBeginnings{"LID ", "Lid ", "Port ", "#", "%"};
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view word) { return text.starts_with(word); }) ||
         text.find("lids dumped") != std::string_view::npos;
}

/// The word behind a phrase; empty: the text does not have the phrase.
std::string_view word_behind(std::string_view text, std::string_view phrase) noexcept {
  const std::size_t at = text.find(phrase);
  if (at == std::string_view::npos) return {};
  LineScanner scanner(text.substr(at + phrase.size()));
  return scanner.take_word();
}

class DumpReader {
 public:
  DumpReader(const Topology& topology, TopologyError& error)
      : topology_(topology),
        wiring_(topology),
        error_(error),
        plan_(topology),
        table_lines_(topology.nodes.size()) {
    for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
      const TopologyNode& about = topology.nodes[node];
      if (about.kind == NodeKind::kSwitch) switches_.add(about.node_guid, {.node = node});
    }
    switches_.sort();
  }

  [[nodiscard]] Expected<SubnetPlan> read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      if (!read_line(line)) return Errc::kInvalidArgument;
    }
    if (!has_switch_) {
      refuse_all(
          "no table is in this text; expected is opensm.fdbs or opensm-lfts.dump, which "
          "OpenSM writes when it runs with -D 0x43");
      return Errc::kInvalidArgument;
    }
    if (!find_lids()) return Errc::kInvalidArgument;
    return std::move(plan_);
  }

 private:
  [[nodiscard]] bool read_line(std::string_view line);
  [[nodiscard]] bool begin_table(std::string_view guid);
  [[nodiscard]] bool read_row(LineScanner scanner);
  [[nodiscard]] bool find_lids();
  [[nodiscard]] bool find_lids_at(std::uint32_t node);
  [[nodiscard]] bool give_lids(PortEnd end, PortEnd from, const std::vector<std::uint16_t>& lids);

  bool refuse(std::size_t line, std::string message) {
    error_ = {line, std::move(message)};
    return false;
  }
  bool refuse(std::string message) { return refuse(line_, std::move(message)); }
  bool refuse_all(std::string message) { return refuse(0, std::move(message)); }
  [[nodiscard]] std::string id_of(std::uint32_t node) const {
    return in_quotes(topology_.nodes[node].id);
  }

  const Topology& topology_;
  const Wiring wiring_;
  TopologyError& error_;
  SubnetPlan plan_;
  GuidIndex switches_{};                  // by the GUID of the node
  std::vector<std::size_t> table_lines_;  // by node: where its table begins; 0: nowhere
  std::size_t line_ = 0;
  std::uint32_t here_ = 0;  // the switch whose table this is
  bool has_switch_ = false;
};

bool DumpReader::read_line(std::string_view line) {
  LineScanner scanner(line);
  if (scanner.at_end() || says_nothing(scanner.rest())) return true;
  const std::string_view text = scanner.rest();
  if (text.starts_with("dump_ucast_routes:")) return begin_table(word_behind(text, " Switch "));
  if (text.starts_with("Unicast lids ")) return begin_table(word_behind(text, " guid "));
  if (text.starts_with("Multicast mlids") || text.starts_with("Switch 0x")) {
    return refuse(
        "this begins a table for multicast LIDs, as in opensm.mcfdbs; expected is "
        "opensm.fdbs or opensm-lfts.dump");
  }
  if (!text.starts_with("0x")) {
    return refuse(in_quotes(text) +
                  " begins no line of a dump of forwarding tables; expected is "
                  "opensm.fdbs or opensm-lfts.dump of OpenSM, or the output of "
                  "dump_fts");
  }
  if (!has_switch_) {
    return refuse(
        "this row belongs to no switch; a line as dump_ucast_routes: Switch 0x... or "
        "Unicast lids [...] of switch Lid 2 guid 0x... must stand above it");
  }
  return read_row(scanner);
}

bool DumpReader::begin_table(std::string_view guid) {
  const auto number = number_of(guid, 16, kGuidMax);
  if (!number) return refuse(in_quotes(guid) + " is not the GUID of a switch");
  const auto found = switches_.find(wire::Guid{*number});
  if (!found) {
    return refuse("no switch of the topology has the node GUID " + text_of(wire::Guid{*number}) +
                  "; the dump is of another fabric");
  }
  here_ = found->node;
  if (table_lines_[here_] != 0) {
    return refuse("the table of " + id_of(here_) + " already stands in line " +
                  std::to_string(table_lines_[here_]));
  }
  table_lines_[here_] = line_;
  has_switch_ = true;
  return true;
}

/// `0x0001 : 001  : 00   : yes` or `0x0001 001 # ...`
bool DumpReader::read_row(LineScanner scanner) {
  const std::string_view first = scanner.take_word();
  const auto lid = number_of(first, 16, 0xffff);
  if (!lid || *lid > SubnetPlan::kLastLid) {
    return refuse(in_quotes(first) + " is not a LID of one port: 0x0001 to 0xbfff");
  }
  (void)scanner.take(':');
  const std::string_view word = scanner.take_word();
  if (word == "UNREACHABLE" || *lid == 0) return true;
  const auto port = number_of(word, 10, 255);
  if (!port) return refuse(in_quotes(word) + " is not a port, as in: 0x0001 : 003 : 01 : yes");
  if (*port == ForwardingTables::kNoPort) return true;
  const TopologyNode& node = topology_.nodes[here_];
  if (*port > node.port_count) {
    return refuse(std::to_string(*port) + " is not a port of " + id_of(here_) +
                  ", which has ports 0 to " + std::to_string(node.port_count));
  }
  const auto value = wire::Lid{static_cast<std::uint16_t>(*lid)};
  if (plan_.port_for(here_, value) != ForwardingTables::kNoPort) {
    return refuse("the table of " + id_of(here_) + " has a row for LID " + std::to_string(*lid) +
                  " already");
  }
  plan_.set_port(here_, value, static_cast<std::uint8_t>(*port));
  return true;
}

bool DumpReader::find_lids() {
  for (std::uint32_t node = 0; node < topology_.nodes.size(); ++node) {
    if (table_lines_[node] != 0 && !find_lids_at(node)) return false;
  }
  return true;
}

/// The LIDs of a switch, and of the adapters beside it.
bool DumpReader::find_lids_at(std::uint32_t node) {
  std::vector<std::vector<std::uint16_t>> by_port(wiring_.last_port(node) + std::size_t{1});
  const auto& table = plan_.tables[node];
  for (std::size_t lid = 0; lid < table.size(); ++lid) {
    if (table[lid] != ForwardingTables::kNoPort) {
      by_port[table[lid]].push_back(static_cast<std::uint16_t>(lid));
    }
  }
  for (std::size_t port = 0; port < by_port.size(); ++port) {
    const PortEnd out{.node = node, .port = static_cast<std::uint8_t>(port)};
    if (by_port[port].empty()) continue;
    if (port == 0) {
      if (!give_lids(out, out, by_port[port])) return false;
      continue;
    }
    const auto& peer = wiring_.peer_of(out);
    if (!peer || wiring_.is_switch(peer->node)) continue;
    if (!give_lids(*peer, out, by_port[port])) return false;
  }
  return true;
}

/// `lids` are those that leave a switch through `from`, in ascending order.
bool DumpReader::give_lids(PortEnd end, PortEnd from, const std::vector<std::uint16_t>& lids) {
  const auto lmc = static_cast<unsigned>(std::countr_zero(lids.size()));
  const bool is_range = std::has_single_bit(lids.size()) && lmc <= kMaskControlMax &&
                        lids.back() - lids.front() + std::size_t{1} == lids.size() &&
                        lids.front() % lids.size() == 0;
  if (is_range) {
    plan_.lids_of(end) = {.base = wire::Lid{lids.front()}, .lmc = static_cast<std::uint8_t>(lmc)};
    return true;
  }
  return refuse(table_lines_[from.node],
                "the table of " + id_of(from.node) + " sends " + std::to_string(lids.size()) +
                    " LIDs, " + std::to_string(lids.front()) + " to " +
                    std::to_string(lids.back()) + ", through port " + std::to_string(from.port) +
                    " to " + id_of(end.node) +
                    "; the LIDs of a port are 1, 2, 4 ... that follow each other, so the dump is "
                    "of another fabric, or older than a change of it");
}

}  // namespace

Expected<SubnetPlan> read_forwarding_dump(std::string_view text, const Topology& topology,
                                          TopologyError& error) {
  return DumpReader(topology, error).read(text);
}

}  // namespace verbatim::fabric
