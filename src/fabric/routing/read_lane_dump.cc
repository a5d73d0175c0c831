// SPDX-License-Identifier: Apache-2.0
#include "fabric/routing/read_lane_dump.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "fabric/routing/guid_index.h"
#include "fabric/topology/guid_text.h"
#include "fabric/topology/line_scanner.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint64_t kGuidMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kLaneMax = 15;
constexpr std::size_t kRowsMax = std::size_t{1} << 22;  // 64 switches of 254 ports

class LaneReader {
 public:
  LaneReader(const Topology& topology, TopologyError& error) : topology_(topology), error_(error) {
    for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
      const bool is_switch = topology.nodes[node].kind == NodeKind::kSwitch;
      std::uint8_t port = is_switch ? 0 : 1;
      for (const wire::Guid guid : topology.nodes[node].port_guids) {
        ends_.add(guid, {.node = node, .port = port++});
      }
    }
    ends_.sort();
  }

  [[nodiscard]] Expected<std::vector<PlannedLanes>> read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      if (!read_line(line)) return Errc::kInvalidArgument;
    }
    if (here_) return std::move(rows_);
    line_ = 0;
    refuse(
        "no map of lanes is in this text; expected is opensm-sl2vl.dump, which OpenSM writes "
        "when it runs with -Q and -D 0x43");
    return Errc::kInvalidArgument;
  }

 private:
  bool refuse(std::string message) {
    error_ = {line_, std::move(message)};
    return false;
  }
  [[nodiscard]] bool read_line(std::string_view line);
  [[nodiscard]] bool begin_port(std::string_view line);
  [[nodiscard]] bool read_row(LineScanner scanner);
  [[nodiscard]] std::optional<std::uint8_t> port_in(LineScanner& scanner);

  const Topology& topology_;
  TopologyError& error_;
  GuidIndex ends_{};
  std::vector<PlannedLanes> rows_{};
  std::optional<PortEnd> here_{};  // the port whose maps these are; of a switch, port 0
  std::size_t line_ = 0;
};

bool LaneReader::read_line(std::string_view line) {
  LineScanner scanner(line);
  if (scanner.at_end() || scanner.rest().starts_with('#')) return true;
  const std::string_view text = scanner.rest();
  if (text.starts_with("Switch ") || text.starts_with("Channel Adapter ")) return begin_port(text);
  if (text.front() >= '0' && text.front() <= '9') return read_row(scanner);
  return refuse(in_quotes(text) +
                " begins no line of a dump of lanes; expected is opensm-sl2vl.dump of OpenSM");
}

/// `Switch 0x0002564202000000, base LID 2, "leaf0"`
bool LaneReader::begin_port(std::string_view line) {
  const std::size_t start = line.find("0x");
  const std::size_t end = line.find_first_of(", ", start == line.npos ? line.size() : start);
  const auto number =
      start == line.npos
          ? std::nullopt
          : number_of(line.substr(start, std::min(end, line.size()) - start), 16, kGuidMax);
  if (!number) return refuse("the GUID of a port is missing, as in: Switch 0x0002564202000000");
  const auto found = ends_.find(wire::Guid{*number});
  if (!found) {
    return refuse("no port of the topology has the GUID " + text_of(wire::Guid{*number}) +
                  "; the dump is of another fabric");
  }
  here_ = found;
  return true;
}

std::optional<std::uint8_t> LaneReader::port_in(LineScanner& scanner) {
  const std::string_view word = scanner.take_word();
  const TopologyNode& node = topology_.nodes[here_->node];
  const auto number = number_of(word, 10, node.port_count);
  if (number) return static_cast<std::uint8_t>(*number);
  refuse(in_quotes(word) + " is not a port of " + in_quotes(node.id) + ", which has ports 0 to " +
         std::to_string(node.port_count));
  return std::nullopt;
}

/// `0   1   : 0  1  2 ...`
bool LaneReader::read_row(LineScanner scanner) {
  if (!here_) {
    return refuse(
        "this row belongs to no port; a line as Switch 0x... or Channel Adapter 0x... "
        "must stand above it");
  }
  const auto in = port_in(scanner);
  if (!in) return false;
  const auto out = port_in(scanner);
  if (!out) return false;
  if (!scanner.take(':')) return refuse("a colon is missing between the ports and the lanes");
  const bool is_switch = here_->port == 0;
  PlannedLanes row{.out = is_switch ? PortEnd{.node = here_->node, .port = *out} : *here_,
                   .in = is_switch ? *in : std::uint8_t{0}};
  for (std::size_t level = 0; level < 2 * row.lanes.size(); ++level) {
    const std::string_view word = scanner.take_word();
    const auto lane = number_of(word, 10, kLaneMax);
    if (!lane) {
      return refuse(in_quotes(word) + " is not the lane of service level " + std::to_string(level) +
                    ": 0 to 15");
    }
    row.lanes[level / 2] |= static_cast<std::byte>(level % 2 == 0 ? *lane << 4 : *lane);
  }
  if (!scanner.at_end()) return refuse(in_quotes(scanner.rest()) + " is not expected here");
  if (rows_.size() == kRowsMax) return refuse("more maps of lanes than any fabric has");
  rows_.push_back(row);
  return true;
}

}  // namespace

Expected<std::vector<PlannedLanes>> read_lane_dump(std::string_view text, const Topology& topology,
                                                   TopologyError& error) {
  return LaneReader(topology, error).read(text);
}

}  // namespace verbatim::fabric
