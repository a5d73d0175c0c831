// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/node_names.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "fabric/topology/line_scanner.h"

namespace verbatim::fabric {
namespace {

std::string_view first_word(std::string_view description) noexcept {
  return LineScanner(description).take_word();
}

/// The GUID in `0x...`, or in an id as ibnetdiscover writes it: `H-...` and `S-...`.
std::optional<std::uint64_t> guid_in(std::string_view name) noexcept {
  const bool has_form = name.starts_with("0x") || name.starts_with("H-") || name.starts_with("S-");
  if (!has_form) return std::nullopt;
  return number_of(name.substr(2), 16, std::numeric_limits<std::uint64_t>::max());
}

/// How many letters are to be changed, added or removed to make one name of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t at = 0; at <= b.size(); ++at) row[at] = at;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The names with this text; they are sorted by text.
template <typename Names>
[[nodiscard]] auto with_text(const Names& names, std::string_view text) {
  const auto text_of = [](const auto& name) { return std::string_view(name.text); };
  return std::span(std::ranges::lower_bound(names, text, {}, text_of),
                   std::ranges::upper_bound(names, text, {}, text_of));
}

}  // namespace

NodeNames::NodeNames(const Topology& topology) : topology_(topology) {
  std::vector<Name> words;
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    const TopologyNode& about = topology.nodes[node];
    names_.push_back({about.id, node});
    if (!about.description.empty()) names_.push_back({about.description, node});
    const std::string_view word = first_word(about.description);
    if (!word.empty() && word != about.description) names_.push_back({word, node});
  }
  const auto as_tuple = [](const Name& name) { return std::tuple(name.text, name.node); };
  std::ranges::sort(names_, {}, as_tuple);
  const auto is_repeated = [&](const Name& a, const Name& b) { return as_tuple(a) == as_tuple(b); };
  names_.erase(std::unique(names_.begin(), names_.end(), is_repeated), names_.end());
  const auto is_unique = [this](std::string_view text) {
    return with_text(names_, text).size() == 1;
  };
  for (const TopologyNode& node : topology.nodes) {
    const std::string_view word = first_word(node.description);
    if (is_unique(word)) {
      shown_.emplace_back(word);
    } else {
      shown_.push_back(is_unique(node.description) ? node.description : node.id);
    }
  }
}

std::string NodeNames::name_of(PortEnd end) const {
  return shown_[end.node] + "[" + std::to_string(end.port) + "]";
}

Expected<std::uint32_t> NodeNames::find(std::string_view name, std::string& message) const {
  const auto found = with_text(names_, name);
  if (found.size() == 1) return found.front().node;
  if (found.empty()) {
    const auto guid = guid_in(name);
    const auto has_guid = [&](const TopologyNode& node) {
      return node.node_guid == wire::Guid{*guid} ||
             std::ranges::find(node.port_guids, wire::Guid{*guid}) != node.port_guids.end();
    };
    const auto node =
        guid ? std::ranges::find_if(topology_.nodes, has_guid) : topology_.nodes.end();
    if (node != topology_.nodes.end()) {
      return static_cast<std::uint32_t>(node - topology_.nodes.begin());
    }
    message = "there is no node " + in_quotes(name) + similar_to(name);
    return Errc::kNoSuchObject;
  }
  message = in_quotes(name) + " is the name of " + std::to_string(found.size()) + " nodes;";
  constexpr std::ptrdiff_t kShown = 5;
  for (const Name& one : found) {
    if (&one - &found.front() == kShown) break;
    message += (&one == &found.front() ? " they are " : ", ") + in_quotes(shown_[one.node]);
  }
  if (static_cast<std::ptrdiff_t>(found.size()) > kShown) message += ", ...";
  return Errc::kInvalidArgument;
}

/// The names that are nearest, if any are near.
std::string NodeNames::similar_to(std::string_view name) const {
  constexpr std::size_t kShown = 5;
  constexpr std::size_t kLongest = 64;                // of a name that is compared
  std::multimap<std::size_t, std::string_view> near;  // by distance; equal ones in their order
  for (const std::string& shown : shown_) {
    if (name.size() > kLongest || shown.size() > kLongest) continue;
    const std::size_t far = distance(name, shown);
    if (far <= 1 + name.size() / 3) near.emplace(far, shown);
  }
  std::string text;
  std::size_t count = 0;
  for (const auto& [far, shown] : near) {
    if (count == kShown) break;
    text += (count++ == 0 ? "; similar names: " : ", ") + std::string(shown);
  }
  if (!text.empty()) return text;
  return "; `verbatim fabric show nodes` lists the " + std::to_string(shown_.size()) + " nodes";
}

Expected<PortEnd> NodeNames::find_port(std::string_view name, std::string& message) const {
  const std::size_t open = name.ends_with(']') ? name.rfind('[') : std::string_view::npos;
  const bool has_port = open != std::string_view::npos;
  auto node = find(has_port ? name.substr(0, open) : name, message);
  if (!node) return node.error();
  const std::uint8_t count = topology_.nodes[*node].port_count;
  const std::string ports =
      ", which has ports 1 to " + std::to_string(count) + ", as in: " + shown_[*node] + "[1]";
  if (!has_port && count == 1) return PortEnd{*node, 1};
  if (!has_port) {
    message = "a port is missing behind " + in_quotes(name) + ports;
    return Errc::kInvalidArgument;
  }
  const std::string_view number = name.substr(open + 1, name.size() - open - 2);
  const auto port = number_of(number, 10, count);
  if (!port || *port == 0) {
    message = in_quotes(number) + " is not a port of " + shown_[*node] + ports;
    return Errc::kInvalidArgument;
  }
  return PortEnd{*node, static_cast<std::uint8_t>(*port)};
}

}  // namespace verbatim::fabric
