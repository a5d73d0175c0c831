// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "fabric/topology/line_scanner.h"

namespace verbatim::tools {
namespace {

using Verb = FabricCommand::Verb;
using View = FabricCommand::View;
using Words = std::vector<std::string>;

/// The beginning of a command, how many words follow, and what it means.
struct Form {
  std::string_view words;     // "link down"
  std::string_view operands;  // for the help
  std::size_t least = 0;      // operands
  std::size_t most = 0;
  Verb verb{};
  View view{};
  std::string_view help;
};

constexpr std::size_t kWordsMax = 1000;  // more than a line has

constexpr std::array<Form, 24> kForms{{
    {"link down", "PORT", 1, 1, Verb::kLinkDown, {}, "pull the cable out, as of leaf0[3]"},
    {"link up", "PORT", 1, 1, Verb::kLinkUp, {}, "plug it in again"},
    {"link loss", "PORT PERCENT", 2, 2, Verb::kLoss, {}, "lose packets on a link"},
    {"link error",
     "PORT KIND [COUNT]",
     2,
     3,
     Verb::kLinkError,
     {},
     "an error of the link: symbol, recovery, integrity, overrun, watchdog"},
    {"link faults",
     "PORT RULES|none",
     2,
     kWordsMax,
     Verb::kLinkFaults,
     {},
     "faults of a link, as out drop 1%; in corrupt every=100"},
    {"loss", "PERCENT", 1, 1, Verb::kLoss, {}, "lose management datagrams anywhere"},
    {"node off", "NODE", 1, 1, Verb::kNodeOff, {}, "take the power of a node away"},
    {"node on", "NODE", 1, 1, Verb::kNodeOn, {}, "give it back; tables and LIDs are forgotten"},
    {"node describe", "NODE TEXT", 2, 2, Verb::kDescribe, {}, "change its NodeDescription"},
    {"switch off", "NODE", 1, 1, Verb::kSwitchOff, {}, "as node off, for switches only"},
    {"switch on", "NODE", 1, 1, Verb::kSwitchOn, {}, "as node on"},
    {"capture stop", "PORT", 1, 1, Verb::kCaptureStop, {}, "end the capture of a port"},
    {"capture",
     "PORT FILE [--for SECONDS] [--count N]",
     2,
     7,
     Verb::kCapture,
     {},
     "write what passes a port to a pcapng file"},
    {"show nodes", "", 0, 0, Verb::kShow, View::kNodes, "all nodes with GUIDs and LIDs"},
    {"show links", "", 0, 0, Verb::kShow, View::kLinks, "all links and their states"},
    {"show ports", "[NODE]", 0, 1, Verb::kShow, View::kPorts, "the ports of a node, or of all"},
    {"show drops", "", 0, 0, Verb::kShow, View::kDrops, "what was discarded, and why"},
    {"show faults", "", 0, 0, Verb::kShow, View::kFaults, "the links with faults, and their hits"},
    {"show captures", "", 0, 0, Verb::kShow, View::kCaptures, "the captures that run"},
    {"show route", "FROM TO", 2, 2, Verb::kShow, View::kRoute, "the way of a packet by its LID"},
    {"show deadlock", "", 0, 0, Verb::kShow, View::kDeadlock, "lanes that wait for each other"},
    {"show topology", "", 0, 0, Verb::kShow, View::kTopology, "as ibnetdiscover prints it"},
    {"show", "", 0, 0, Verb::kShow, View::kSummary, "how many there are of what"},
    {"quit", "", 0, 0, Verb::kQuit, {}, "end the fabric"},
}};

/// The words of a line; nothing when a quote is open at its end.
std::optional<Words> split(std::string_view line) {
  Words words;
  bool in_word = false;
  bool is_quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char c = line[at];
    const bool is_blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (is_blank && !is_quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '"') {
      is_quoted = !is_quoted;
    } else {
      const bool is_escape = is_quoted && c == '\\' && at + 1 < line.size();
      words.back() += is_escape ? line[++at] : c;
    }
  }
  if (is_quoted) return std::nullopt;
  return words;
}

std::size_t word_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' ')) + 1;
}

/// Whether the words begin with those of the form.
bool begins_with(const Words& words, std::string_view form) {
  std::size_t at = 0;
  while (!form.empty()) {
    const std::size_t end = std::min(form.find(' '), form.size());
    if (at == words.size() || words[at] != form.substr(0, end)) return false;
    ++at;
    form.remove_prefix(std::min(end + 1, form.size()));
  }
  return true;
}

std::string usage_of(const Form& form) {
  std::string usage(form.words);
  if (!form.operands.empty()) usage += " " + std::string(form.operands);
  return usage;
}

/// The commands that begin with a word, for a message.
std::string forms_of(std::string_view first) {
  std::string list;
  for (const Form& form : kForms) {
    if (form.words.substr(0, form.words.find(' ')) != first) continue;
    list += (list.empty() ? "" : ", ") + usage_of(form);
  }
  return list;
}

constexpr std::array<std::pair<std::string_view, fabric::LinkError>, 5> kErrors{{
    {"symbol", fabric::LinkError::kSymbol},
    {"recovery", fabric::LinkError::kRecovery},
    {"integrity", fabric::LinkError::kLocalIntegrity},
    {"overrun", fabric::LinkError::kBufferOverrun},
    {"watchdog", fabric::LinkError::kFlowControlWatchdog},
}};

Errc refuse(std::string& message, std::string why) {
  message = std::move(why);
  return Errc::kInvalidArgument;
}

Status read_error(const Words& operands, FabricCommand& command, std::string& message) {
  const auto* const found = std::ranges::find(kErrors, std::string_view(operands[1]),
                                              [](const auto& entry) { return entry.first; });
  if (found == kErrors.end()) {
    return refuse(message, fabric::in_quotes(operands[1]) +
                               " is no error of a link: symbol, recovery, integrity, overrun or "
                               "watchdog");
  }
  command.error = found->second;
  if (operands.size() < 3) return Ok{};
  constexpr std::uint32_t kMost = 65'535;
  const std::string& text = operands[2];
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, command.count);
  const bool is_count =
      parsed.ec == std::errc{} && parsed.ptr == end && command.count >= 1 && command.count <= kMost;
  if (is_count) return Ok{};
  return refuse(message,
                fabric::in_quotes(text) + " is not a count from 1 to " + std::to_string(kMost));
}

/// A time in seconds, "10" or "0.5".
std::optional<Duration> seconds_of(const std::string& text) {
  constexpr double kMost = 31 * 86'400.0;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  const bool is_time = parsed.ec == std::errc{} && parsed.ptr == end && seconds > 0;
  if (!is_time || seconds > kMost) return std::nullopt;
  return std::chrono::ceil<Duration>(std::chrono::duration<double>(seconds));
}

std::optional<std::uint64_t> count_of(const std::string& text) {
  std::uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec != std::errc{} || parsed.ptr != end || count == 0) return std::nullopt;
  return count;
}

/// Takes the file and the options, and leaves the port.
Status read_capture(Words& operands, FabricCommand& command, std::string& message) {
  Words plain;
  for (std::size_t at = 0; at < operands.size(); ++at) {
    const std::string& word = operands[at];
    if (word == "--wait") {
      command.waits = true;
    } else if (word == "--for" || word == "--count") {
      const std::string value = at + 1 < operands.size() ? operands[++at] : "";
      const bool is_time = word == "--for";
      const auto time = is_time ? seconds_of(value) : std::nullopt;
      const auto count = is_time ? std::nullopt : count_of(value);
      if (is_time && !time) {
        return refuse(message, fabric::in_quotes(value) +
                                   " is not a time in seconds, as --for 10 or --for 0.5");
      }
      if (!is_time && !count) {
        return refuse(message,
                      fabric::in_quotes(value) + " is not a number of packets, as --count 1000");
      }
      command.limits.time = time.value_or(command.limits.time);
      command.limits.packets = count.value_or(command.limits.packets);
    } else {
      plain.push_back(word);
    }
  }
  if (plain.size() != 2 || plain[1].empty()) {
    return refuse(message, "expected is: capture PORT FILE [--for SECONDS] [--count N]");
  }
  command.file = plain[1];
  plain.resize(1);
  operands = std::move(plain);
  return Ok{};
}

/// What the operands of a command say.
Status read_operands(Words operands, FabricCommand& command, std::string& message) {
  if (command.verb == Verb::kLinkError) {
    if (auto read = read_error(operands, command, message); !read) return read;
    operands.resize(1);
  }
  if (command.verb == Verb::kLinkFaults) {
    for (std::size_t at = 1; at < operands.size(); ++at) {
      command.rules += (at == 1 ? "" : " ") + operands[at];
    }
    operands.resize(1);
  }
  if (command.verb == Verb::kCapture) {
    if (auto read = read_capture(operands, command, message); !read) return read;
  }
  if (command.verb == Verb::kLoss) {
    const auto share = parse_per_mille(operands.back());
    if (!share) {
      return refuse(message, fabric::in_quotes(operands.back()) +
                                 " is not a share in per cent, as 10 or 0.5%");
    }
    command.per_mille = *share;
    operands.pop_back();
  }
  command.names = std::move(operands);
  return Ok{};
}

}  // namespace

Expected<FabricCommand> parse_fabric_command(std::string_view line, std::string& message) {
  auto words = split(line);
  if (!words) return refuse(message, "a quote is not closed");
  FabricCommand command;
  const auto json = std::ranges::find(*words, "--json");
  if (json != words->end()) {
    command.json = true;
    words->erase(json);
  }
  if (words->empty() || words->front() == "help" || words->front() == "?") return command;
  const auto* const form =
      std::ranges::find_if(kForms, [&](const Form& one) { return begins_with(*words, one.words); });
  if (form == kForms.end()) {
    const std::string forms = forms_of(words->front());
    if (!forms.empty()) return refuse(message, "expected is one of: " + forms);
    return refuse(message, fabric::in_quotes(words->front()) + " is no command; `help` lists them");
  }
  const std::size_t own = word_count(form->words);
  const std::size_t operands = words->size() - own;
  const bool is_other = form->view == View::kSummary && form->verb == Verb::kShow && operands > 0;
  if (is_other) {
    return refuse(message, fabric::in_quotes((*words)[own]) +
                               " cannot be shown; expected is one of: " + forms_of("show"));
  }
  if (operands < form->least || operands > form->most) {
    return refuse(message, "expected is: " + usage_of(*form));
  }
  if (command.json && form->verb != Verb::kShow) {
    return refuse(message, "--json is for `show` only");
  }
  command.verb = form->verb;
  command.view = form->view;
  Words rest(words->begin() + static_cast<std::ptrdiff_t>(own), words->end());
  if (auto read = read_operands(std::move(rest), command, message); !read) {
    return read.error();
  }
  return command;
}

std::string line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += '"';
    for (const char c : word) {
      if (c == '"' || c == '\\') line += '\\';
      line += c;
    }
    line += '"';
  }
  return line;
}

std::string fabric_command_help() {
  constexpr std::size_t kColumn = 30;
  std::string text;
  for (const Form& form : kForms) {
    std::string usage = usage_of(form);
    usage.resize(std::max(usage.size() + 1, kColumn), ' ');
    text += usage + std::string(form.help) + "\n";
  }
  return text + "`show ... --json` is for machines.\n";
}

Expected<std::uint32_t> parse_per_mille(std::string_view text) {
  constexpr std::uint32_t kMost = 1000;
  if (text.ends_with('%')) text.remove_suffix(1);
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, dot);
  const std::string_view tenths = dot < text.size() ? text.substr(dot + 1) : "0";
  const auto digits = std::string(whole) + std::string(tenths);
  const bool has_form = !whole.empty() && whole.size() <= 3 && tenths.size() == 1 &&
                        std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!has_form) return Errc::kInvalidArgument;
  std::uint32_t value = 0;
  for (const char c : digits) value = value * 10 + static_cast<std::uint32_t>(c - '0');
  if (value > kMost) return Errc::kInvalidArgument;
  return value;
}

}  // namespace verbatim::tools
