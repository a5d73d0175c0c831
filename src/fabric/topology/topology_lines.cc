// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/topology_lines.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "fabric/topology/line_scanner.h"
#include "fabric/topology/made_guid.h"

namespace verbatim::fabric {
namespace {

constexpr std::uint64_t kGuidMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kLidMax = 0xbfff;

/// A line, and the comment behind its '#'. A '#' in quotes is part of a name.
struct Line {
  std::string_view text;
  std::string_view comment;
  bool is_empty = false;
};

Line split_comment(std::string_view line) noexcept {
  bool is_quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '"') is_quoted = !is_quoted;
    if (line[at] == '#' && !is_quoted) return {line.substr(0, at), line.substr(at + 1), false};
  }
  return {line, {}, LineScanner(line).at_end()};
}

/// The comment of a node or a port: a description in quotes, which may itself contain quotes, and
/// words before and behind it.
struct Comment {
  std::string_view before;
  std::optional<std::string_view> description;
  std::string_view behind;
};

Comment split_description(std::string_view comment) noexcept {
  const std::size_t first = comment.find('"');
  const std::size_t last = comment.rfind('"');
  if (first == last) return {comment, std::nullopt, {}};
  return {comment.substr(0, first), comment.substr(first + 1, last - first - 1),
          comment.substr(last + 1)};
}

/// The number behind the word `lid`; 0: there is none.
std::uint16_t lid_in(std::string_view words) noexcept {
  LineScanner scanner(words);
  while (!scanner.at_end()) {
    if (scanner.take_word() != "lid") continue;
    return static_cast<std::uint16_t>(number_of(scanner.take_word(), 10, kLidMax).value_or(0));
  }
  return 0;
}

std::optional<LinkRate> rate_in(std::string_view words) noexcept {
  LineScanner scanner(words);
  std::optional<LinkRate> rate;
  while (!scanner.at_end()) {
    if (const auto found = parse_link_rate(scanner.take_word())) rate = found;
  }
  return rate;
}

/// `w=` of ibsim: lanes.
std::optional<LinkWidth> width_of(std::string_view lanes) noexcept {
  const auto rate = parse_link_rate(std::string(lanes) + "xSDR");
  return rate ? std::optional(rate->width) : std::nullopt;
}

/// `s=` of ibsim: the bit of PortInfo, or the name of a speed.
std::optional<LinkSpeed> speed_of(std::string_view text) noexcept {
  if (text == "1") return LinkSpeed::kSdr;
  if (text == "2") return LinkSpeed::kDdr;
  if (text == "4") return LinkSpeed::kQdr;
  const auto rate = parse_link_rate("1x" + std::string(text));
  return rate ? std::optional(rate->speed) : std::nullopt;
}

bool begins_a_node(std::string_view word) noexcept {
  constexpr std::array<std::string_view, 7> kWords{"Switch", "Ca", "Hca", "Rt", "CA", "HCA", "RT"};
  return std::ranges::find(kWords, word) != kWords.end();
}

/// Lines that ibnetdiscover prints with --grouping around the nodes.
bool is_grouping(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 4> kBeginnings{"Chassis ", "Non-Chassis Nodes",
                                                        "Hostname:", "numports"};
  return std::ranges::any_of(kBeginnings,
                             [&](std::string_view word) { return text.starts_with(word); });
}

/// Values of the lines before a node, which are about that node.
struct Attributes {
  std::optional<std::uint32_t> vendor_id;
  std::optional<std::uint16_t> device_id;
  wire::Guid system_guid{};
  wire::Guid node_guid{};
  wire::Guid port0_guid{};
};

class LineReader {
 public:
  explicit LineReader(TopologyError& error) noexcept : error_(error) {}

  [[nodiscard]] Expected<TopologyLines> read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      if (!read_line(split_comment(line))) return Errc::kInvalidArgument;
    }
    return std::move(lines_);
  }

 private:
  [[nodiscard]] bool read_line(const Line& line);
  [[nodiscard]] bool read_attribute(std::string_view key, std::string_view value);
  [[nodiscard]] bool read_node(std::string_view word, LineScanner scanner, const Line& line);
  [[nodiscard]] bool accept_node(TopologyNode&& node);
  [[nodiscard]] bool read_port(LineScanner scanner, std::string_view comment);
  [[nodiscard]] bool read_remote(LineScanner& scanner, StatedPort& port);
  [[nodiscard]] bool read_port_options(LineScanner& scanner, StatedPort& port);
  [[nodiscard]] bool read_guid(LineScanner& scanner, wire::Guid& guid);

  bool refuse(std::string message) {
    error_ = {line_, std::move(message)};
    return false;
  }

  TopologyError& error_;
  std::size_t line_ = 0;
  Attributes attributes_;
  bool in_node_ = false;  // a line about a port belongs to the last node
  TopologyLines lines_;
};

bool LineReader::read_line(const Line& line) {
  LineScanner scanner(line.text);
  if (scanner.at_end()) {
    if (line.is_empty) in_node_ = false;
    return true;
  }
  const std::string_view text = scanner.rest();
  if (text.starts_with('[')) return read_port(scanner, line.comment);
  if (is_grouping(text)) return true;
  const std::string_view word = scanner.take_word();
  if (begins_a_node(word)) return read_node(word, scanner, line);
  if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
    return read_attribute(text.substr(0, equals), text.substr(equals + 1));
  }
  if (word == "include" || word == "do") {
    return refuse("'" + std::string(word) + "' of ibsim is not supported; " +
                  (word == "do" ? "remove the line, and give commands to the running fabric with "
                                  "`verbatim fabric`"
                                : "put the lines of the other file here"));
  }
  return refuse(in_quotes(word) +
                " begins no line of a topology; expected is Switch or Ca with ports and a name, as "
                "in: Switch 8 \"S1\"; or a port, as in: [1] \"H1\"[1]");
}

/// `key=value`. Keys that say nothing about a topology are passed over.
bool LineReader::read_attribute(std::string_view key, std::string_view value) {
  in_node_ = false;
  LineScanner scanner(value);
  const std::string_view first = scanner.rest().substr(0, scanner.rest().find_first_of(" \t("));
  const bool is_id = key == "vendid" || key == "devid";
  const bool is_guid = key.ends_with("guid") || key.ends_with("guids");
  if (!is_id && !is_guid) return true;
  const std::uint64_t most = key == "vendid" ? 0xff'ffff : key == "devid" ? 0xffff : kGuidMax;
  const auto number = number_of(first, 16, most);
  if (!number) {
    return refuse(in_quotes(first) + " is not a hexadecimal number for " + in_quotes(key) +
                  (is_id ? "" : ", as in: caguid=0x98039b0300a0b1c0"));
  }
  if (key == "vendid") attributes_.vendor_id = static_cast<std::uint32_t>(*number);
  if (key == "devid") attributes_.device_id = static_cast<std::uint16_t>(*number);
  if (is_id) return true;
  if (key == "sysimgguid") {
    attributes_.system_guid = wire::Guid{*number};
    return true;
  }
  attributes_.node_guid = wire::Guid{*number};
  LineScanner behind(scanner.rest().substr(first.size()));
  return read_guid(behind, attributes_.port0_guid);
}

bool LineReader::read_node(std::string_view word, LineScanner scanner, const Line& line) {
  if (word == "Rt" || word == "RT") {
    return refuse("routers are not supported; remove this node and the ports that lead to it");
  }
  TopologyNode node;
  node.kind = word == "Switch" ? NodeKind::kSwitch : NodeKind::kHost;
  const std::size_t most =
      node.kind == NodeKind::kSwitch ? Topology::kPortsMax : Topology::kHostPortsMax;
  const std::string_view ports = scanner.take_word();
  const auto count = number_of(ports, 10, most);
  if (!count || *count == 0) {
    return refuse(in_quotes(ports) + " is not a number of ports: 1 to " + std::to_string(most));
  }
  const auto id = scanner.take_between('"', '"');
  if (!id || id->empty()) {
    return refuse("a name in quotes is missing, as in: " + std::string(word) + " " +
                  std::string(ports) + " \"name\"");
  }
  if (!scanner.at_end()) return refuse(in_quotes(scanner.rest()) + " is not expected here");
  node.port_count = static_cast<std::uint8_t>(*count);
  node.id = *id;
  const Comment comment = split_description(line.comment);
  node.description = comment.description.value_or(*id);
  node.lid_hint = lid_in(comment.behind);
  node.has_enhanced_port0 = comment.behind.find("enhanced port 0") != std::string_view::npos;
  return accept_node(std::move(node));
}

/// The GUID of an id as ibnetdiscover writes it, "S-98039b0300a0b1c0"; zero for others.
wire::Guid guid_in(std::string_view id) noexcept {
  constexpr std::size_t kDigits = 16;
  const bool has_form = id.size() == kDigits + 2 && (id.starts_with("S-") || id.starts_with("H-"));
  if (!has_form) return {};
  return wire::Guid{number_of(id.substr(2), 16, kGuidMax).value_or(0)};
}

bool LineReader::accept_node(TopologyNode&& node) {
  if (node.description.size() > Topology::kDescriptionMax) {
    return refuse("the description has " + std::to_string(node.description.size()) +
                  " octets; NodeDescription has room for " +
                  std::to_string(Topology::kDescriptionMax));
  }
  if (lines_.nodes.size() == Topology::kNodesMax) {
    return refuse("more than " + std::to_string(Topology::kNodesMax) +
                  " nodes, which no subnet has");
  }
  const bool is_switch = node.kind == NodeKind::kSwitch;
  node.node_guid = attributes_.node_guid != wire::Guid{} ? attributes_.node_guid : guid_in(node.id);
  node.system_guid = attributes_.system_guid;
  node.port_guids.assign(is_switch ? 1 : node.port_count, wire::Guid{});
  if (is_switch) node.port_guids.front() = attributes_.port0_guid;
  node.vendor_id = attributes_.vendor_id.value_or(kMadeVendorId);
  node.device_id = attributes_.device_id.value_or(is_switch ? kMadeSwitchDevice : kMadeHostDevice);
  attributes_ = {};
  in_node_ = true;
  lines_.nodes.push_back({std::move(node), line_});
  return true;
}

/// `[1](guid) "S-..."[22](guid) w=4 # comment`, or with `[ext 3]` behind the port.
bool LineReader::read_port(LineScanner scanner, std::string_view comment) {
  if (!in_node_) {
    return refuse(
        "this port belongs to no node; a line as Switch 8 \"name\" must stand above it, "
        "without an empty line between them");
  }
  StatedNode& owner = lines_.nodes.back();
  StatedPort port;
  port.line = line_;
  const std::string_view number = scanner.take_between('[', ']').value_or("");
  const auto value = number_of(number, 10, owner.node.port_count);
  if (!value || *value == 0) {
    return refuse(in_quotes(number) + " is not a port of " + in_quotes(owner.node.id) +
                  ", which has ports 1 to " + std::to_string(owner.node.port_count));
  }
  port.end = {static_cast<std::uint32_t>(lines_.nodes.size() - 1),
              static_cast<std::uint8_t>(*value)};
  (void)scanner.take_between('[', ']');  // the number on the cover of a chassis, if there is one
  wire::Guid guid{};
  if (!read_guid(scanner, guid)) return false;
  if (owner.node.kind == NodeKind::kHost && guid != wire::Guid{}) {
    owner.node.port_guids[port.end.port - 1U] = guid;
  }
  if (!read_remote(scanner, port) || !read_port_options(scanner, port)) return false;
  const Comment words = split_description(comment);
  if (!port.rate) port.rate = rate_in(words.behind);
  const bool names_lid = owner.node.kind == NodeKind::kHost && port.end.port == 1;
  if (names_lid) owner.node.lid_hint = lid_in(words.before);
  lines_.ports.push_back(port);
  return true;
}

/// `"S-..."[22](guid)`
bool LineReader::read_remote(LineScanner& scanner, StatedPort& port) {
  const auto id = scanner.take_between('"', '"');
  if (!id || id->empty()) {
    return refuse("the name of the node at the other end is missing, as in: [1] \"name\"[1]");
  }
  const auto number = scanner.take_between('[', ']');
  const auto value = number_of(number.value_or(""), 10, Topology::kPortsMax);
  if (!value || *value == 0) {
    return refuse("behind " + in_quotes(*id) + " the port at the other end is missing, as in: [" +
                  std::to_string(port.end.port) + "] \"" + "name" + "\"[1]");
  }
  port.remote_id = *id;
  port.remote_port = static_cast<std::uint8_t>(*value);
  (void)scanner.take_between('[', ']');
  return read_guid(scanner, port.remote_guid);
}

/// `w=4 s=2` of ibsim.
bool LineReader::read_port_options(LineScanner& scanner, StatedPort& port) {
  while (!scanner.at_end()) {
    const std::string_view word = scanner.take_word();
    LinkRate rate = port.rate.value_or(LinkRate{});
    if (word.starts_with("w=")) {
      const auto width = width_of(word.substr(2));
      if (!width) return refuse(in_quotes(word) + " is no width: w=1, 2, 4, 8 or 12");
      rate.width = *width;
    } else if (word.starts_with("s=")) {
      const auto speed = speed_of(word.substr(2));
      if (!speed) return refuse(in_quotes(word) + " is no speed: s=1, 2 or 4, or SDR to XDR");
      rate.speed = *speed;
    } else {
      return refuse(in_quotes(word) + " is not expected here; a comment begins with #");
    }
    port.rate = rate;
  }
  return true;
}

/// `(98039b0300a0b1c0)`, or nothing.
bool LineReader::read_guid(LineScanner& scanner, wire::Guid& guid) {
  if (!scanner.rest().starts_with('(')) return true;
  const std::string_view inner = scanner.take_between('(', ')').value_or("");
  const auto number = number_of(inner, 16, kGuidMax);
  if (!number) return refuse(in_quotes(inner) + " in parentheses is not a GUID");
  guid = wire::Guid{*number};
  return true;
}

}  // namespace

Expected<TopologyLines> read_topology_lines(std::string_view text, TopologyError& error) {
  return LineReader(error).read(text);
}

}  // namespace verbatim::fabric
