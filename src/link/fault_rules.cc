// SPDX-License-Identifier: Apache-2.0
#include "link/fault_rules.h"

#include <algorithm>
#include <array>

namespace verbatim::link {
namespace {

constexpr std::uint64_t kQpNumberMax = 0x00ff'ffff;

bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\n'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
char upper(char c) noexcept { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

/// Text of the user as a message may show it: short, and without control characters.
std::string in_quotes(std::string_view word) {
  constexpr std::size_t kShown = 40;
  std::string text = "'";
  for (const char c : word.substr(0, kShown)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (word.size() > kShown ? "...'" : "'");
}

/// A word of the text and its position.
struct Word {
  std::string_view text;
  std::size_t position = 0;  // from zero

  [[nodiscard]] Word from(std::size_t offset) const noexcept {
    return {text.substr(offset), position + offset};
  }
  [[nodiscard]] Word first(std::size_t count) const noexcept {
    return {text.substr(0, count), position};
  }
  /// What follows `prefix`, when the word starts with it.
  [[nodiscard]] std::optional<Word> behind(std::string_view prefix) const noexcept {
    if (!text.starts_with(prefix)) return std::nullopt;
    return from(prefix.size());
  }
};

/// Writes the message about a mistake: the column and the reason.
class Refusal {
 public:
  explicit Refusal(std::string& message) noexcept : message_(message) {}
  Errc operator()(const Word& word, const std::string& why) const {
    message_ = "column " + std::to_string(word.position + 1) + ": " + why;
    return Errc::kInvalidArgument;
  }

 private:
  std::string& message_;
};

/// Decimal, or hexadecimal behind 0x. Nothing when the text is not exactly a number.
std::optional<std::uint64_t> number_of(std::string_view text) noexcept {
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (is_hexadecimal) text.remove_prefix(2);
  if (text.empty()) return std::nullopt;
  const std::uint64_t base = is_hexadecimal ? 16 : 10;
  std::uint64_t value = 0;
  for (const char c : text) {
    std::uint64_t digit = base;
    if (is_digit(c)) digit = static_cast<std::uint64_t>(c - '0');
    if (upper(c) >= 'A' && upper(c) <= 'F') digit = static_cast<std::uint64_t>(upper(c) - 'A') + 10;
    if (digit >= base || value > (~std::uint64_t{0} - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

/// A decimal fraction, in billionths: "0.05", "12", ".5"; at most nine digits on either side.
std::optional<std::uint64_t> billionths_of(std::string_view text) noexcept {
  constexpr std::size_t kDigits = 9;
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, dot);
  const std::string_view part = dot < text.size() ? text.substr(dot + 1) : std::string_view{};
  if (whole.empty() && part.empty()) return std::nullopt;
  if (whole.size() > kDigits || part.size() > kDigits) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : whole) {
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  for (std::size_t i = 0; i < kDigits; ++i) {
    const char c = i < part.size() ? part[i] : '0';
    if (!is_digit(c)) return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

constexpr std::uint64_t kBillion = 1'000'000'000;

/// `parts` of `whole` (a multiple of a billion) as a chance in units of 2^-32. It is 0 only if
/// `parts` is 0.
std::uint64_t chance_of(std::uint64_t parts, std::uint64_t whole) noexcept {
  const std::uint64_t chance = parts / (whole / kBillion) * FaultRule::kAlways / kBillion;
  return parts != 0 ? std::max<std::uint64_t>(chance, 1) : 0;
}

/// "250us", "1.5ms", "2s": nothing when there is no unit or no number.
std::optional<Duration> duration_of(std::string_view text) noexcept {
  struct Unit {
    std::string_view name;
    std::uint64_t nanoseconds;
  };
  constexpr std::array<Unit, 4> kUnits = {
      // the others end in "s" as well, and come before it
      {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", kBillion}}};
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.name)) continue;
    const auto count = billionths_of(text.substr(0, text.size() - unit.name.size()));
    if (!count) return std::nullopt;
    const std::uint64_t nanoseconds =  // below 10^18 each
        *count / kBillion * unit.nanoseconds + *count % kBillion * unit.nanoseconds / kBillion;
    return Duration(static_cast<std::int64_t>(nanoseconds));
  }
  return std::nullopt;
}

template <typename Value, std::size_t kCount>
struct Names {
  struct Entry {
    std::string_view name;
    Value value;
  };
  std::array<Entry, kCount> entries;

  [[nodiscard]] std::optional<Value> find(std::string_view name) const noexcept {
    for (const Entry& entry : entries) {
      if (entry.name == name) return entry.value;
    }
    return std::nullopt;
  }
};

constexpr Names<FaultRule::Direction, 3> kDirections = {{{{"in", FaultRule::Direction::kIn},
                                                          {"out", FaultRule::Direction::kOut},
                                                          {"both", FaultRule::Direction::kBoth}}}};
constexpr Names<FaultRule::Action, 5> kActions = {{{{"drop", FaultRule::Action::kDrop},
                                                    {"duplicate", FaultRule::Action::kDuplicate},
                                                    {"reorder", FaultRule::Action::kReorder},
                                                    {"corrupt", FaultRule::Action::kCorrupt},
                                                    {"delay", FaultRule::Action::kDelay}}}};

/// The opcodes that a name stands for: one, or with '*' at its end all that begin with it.
std::bitset<256> opcodes_named(std::string_view name) {
  std::string wanted(name);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(), upper);
  const bool is_prefix = wanted.ends_with('*');
  if (is_prefix) wanted.pop_back();
  std::bitset<256> found;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string known = fault_name_of(wire::Opcode(static_cast<std::uint8_t>(i)));
    if (known.empty()) continue;
    found[i] = is_prefix ? known.starts_with(wanted) : known == wanted;
  }
  return found;
}

/// Reads the options of one rule. Each kind of option may appear once.
class RuleReader {
 public:
  RuleReader(FaultRule& rule, std::string& message) noexcept : rule_(rule), refuse_(message) {}

  Status read(const Word& word) {
    if (const auto value = word.behind("opcode=")) return read_opcodes(*value);
    if (const auto value = word.behind("qp=")) return read_qp(*value);
    if (const auto value = word.behind("after=")) return read_count(*value, kAfter, rule_.after);
    if (const auto value = word.behind("first=")) return read_count(*value, kFirst, rule_.first);
    if (const auto value = word.behind("every=")) return read_count(*value, kEvery, rule_.every);
    if (const auto value = word.behind("by=")) return read_by(*value);
    if (const auto value = word.behind("p=")) return read_chance(*value, *value, kBillion);
    if (word.text.ends_with('%')) {
      return read_chance(word, word.first(word.text.size() - 1), 100 * kBillion);
    }
    if (!word.text.empty() && (is_digit(word.text[0]) || word.text[0] == '.')) {
      return read_delay(word);
    }
    return refuse_(word, in_quotes(word.text) +
                             " is no option; write 1%, p=0.01, every=N, first=N, after=N, "
                             "opcode=NAME, qp=NUMBER, by=N (reorder) or a time (delay)");
  }

  /// Checks that the rule has the options that its fault needs.
  Status finish(const Word& action) const {
    if (rule_.action == FaultRule::Action::kDelay && !has(kTime)) {
      return refuse_(action, "delay needs a time, as in delay 200us or delay 1ms..5ms");
    }
    return Ok{};
  }

 private:
  enum Kind : std::uint32_t {
    kOpcode = 1U << 0,
    kQp = 1U << 1,
    kAfter = 1U << 2,
    kFirst = 1U << 3,
    kEvery = 1U << 4,
    kBy = 1U << 5,
    kChance = 1U << 6,
    kTime = 1U << 7,
  };
  [[nodiscard]] bool has(Kind kind) const noexcept { return (seen_ & kind) != 0; }

  Status once(const Word& word, Kind kind, const char* what) {
    if (has(kind)) return refuse_(word, std::string("this rule has ") + what + " already");
    seen_ |= kind;
    return Ok{};
  }

  Status read_opcodes(Word list) {
    if (auto is_first = once(list, kOpcode, "opcodes"); !is_first) return is_first;
    rule_.opcodes.reset();
    while (true) {
      const Word name = list.first(list.text.find(','));
      const auto found = opcodes_named(name.text);
      if (name.text.empty() || found.none()) {
        return refuse_(name,
                       in_quotes(name.text) +
                           " is no opcode; write names as RC_SEND_ONLY, RC_ACKNOWLEDGE or "
                           "RC_RDMA_WRITE* with commas between them (docs/FAULTS.md has all)");
      }
      rule_.opcodes |= found;
      if (name.text.size() == list.text.size()) return Ok{};
      list = list.from(name.text.size() + 1);
    }
  }

  Status read_qp(const Word& value) {
    if (auto is_first = once(value, kQp, "a queue pair"); !is_first) return is_first;
    const auto number = number_of(value.text);
    if (!number || *number > kQpNumberMax) {
      return refuse_(value, in_quotes(value.text) +
                                " is no queue pair number; write 0 to 0xffffff, as in qp=0x11");
    }
    rule_.qp = wire::QpNumber{static_cast<std::uint32_t>(*number)};
    return Ok{};
  }

  Status read_count(const Word& value, Kind kind, std::uint64_t& to) {
    if (auto is_first = once(value, kind, "that count"); !is_first) return is_first;
    const auto number = number_of(value.text);
    if (!number || *number == 0) {
      return refuse_(value, in_quotes(value.text) + " is no count; write a number from 1");
    }
    to = *number;
    return Ok{};
  }

  Status read_by(const Word& value) {
    if (auto is_first = once(value, kBy, "a distance"); !is_first) return is_first;
    if (rule_.action != FaultRule::Action::kReorder) {
      return refuse_(value, "by= is for reorder only");
    }
    const auto number = number_of(value.text);
    if (!number || *number == 0 || *number > FaultRules::kByMax) {
      return refuse_(value, in_quotes(value.text) + " is no distance; write 1 to " +
                                std::to_string(FaultRules::kByMax) + " packets");
    }
    rule_.by = static_cast<std::uint32_t>(*number);
    return Ok{};
  }

  /// `whole` is the value of certainty, in billionths.
  Status read_chance(const Word& shown, const Word& value, std::uint64_t whole) {
    if (auto is_first = once(shown, kChance, "a probability"); !is_first) return is_first;
    const auto billionths = billionths_of(value.text);
    if (!billionths || *billionths > whole) {
      return refuse_(shown,
                     in_quotes(shown.text) + " is no probability; write 0% to 100%, or p=0 to p=1");
    }
    rule_.chance = chance_of(*billionths, whole);
    return Ok{};
  }

  Status read_delay(const Word& value) {
    if (auto is_first = once(value, kTime, "a time"); !is_first) return is_first;
    if (rule_.action != FaultRule::Action::kDelay) {
      return refuse_(value, in_quotes(value.text) + " is for delay only; a probability ends in %");
    }
    const std::size_t dots = value.text.find("..");
    const auto low = duration_of(value.text.substr(0, dots));
    const auto high =
        dots == std::string_view::npos ? low : duration_of(value.text.substr(dots + 2));
    if (!low || !high || *low > *high || *high > FaultRules::kDelayMax) {
      return refuse_(value, in_quotes(value.text) +
                                " is no time; write 200us, 1.5ms or 1ms..5ms, at most 10s");
    }
    rule_.delay_min = *low;
    rule_.delay_max = *high;
    return Ok{};
  }

  FaultRule& rule_;
  Refusal refuse_;
  std::uint32_t seen_ = 0;  // Kind bits
};

/// Takes words from the front of an item.
class Words {
 public:
  explicit Words(const Word& item) noexcept : rest_(item) {}
  std::optional<Word> next() noexcept {
    std::size_t start = 0;
    while (start < rest_.text.size() && is_blank(rest_.text[start])) ++start;
    rest_ = rest_.from(start);
    if (rest_.text.empty()) return std::nullopt;
    std::size_t end = 0;
    while (end < rest_.text.size() && !is_blank(rest_.text[end])) ++end;
    const Word word = rest_.first(end);
    rest_ = rest_.from(end);
    return word;
  }
  /// Where the next word would stand.
  [[nodiscard]] const Word& rest() const noexcept { return rest_; }

 private:
  Word rest_;
};

Status read_rule(const Word& first, Words& words, FaultRule& rule, std::string& message) {
  const Refusal refuse(message);
  const auto direction = kDirections.find(first.text);
  if (!direction) {
    return refuse(first, in_quotes(first.text) +
                             " is no direction; a rule starts with in, out or both, as in "
                             "out drop 1% (or write seed=NUMBER)");
  }
  const auto action_word = words.next();
  if (!action_word) {
    return refuse(words.rest(),
                  "a fault is missing; write drop, duplicate, reorder, corrupt or "
                  "delay");
  }
  const auto action = kActions.find(action_word->text);
  if (!action) {
    return refuse(*action_word, in_quotes(action_word->text) +
                                    " is no fault; write drop, duplicate, reorder, corrupt or "
                                    "delay");
  }
  rule.direction = *direction;
  rule.action = *action;
  rule.opcodes.set();
  RuleReader options(rule, message);
  while (const auto word = words.next()) {
    if (auto is_read = options.read(*word); !is_read) return is_read;
  }
  return options.finish(*action_word);
}

Status read_seed(const Word& value, Words& words, std::optional<std::uint64_t>& seed,
                 std::string& message) {
  const Refusal refuse(message);
  if (seed) return refuse(value, "there is a seed already");
  seed = number_of(value.text);
  if (!seed) return refuse(value, in_quotes(value.text) + " is no seed; write a number");
  if (const auto more = words.next()) {
    return refuse(*more, in_quotes(more->text) + " follows the seed; put a semicolon between them");
  }
  return Ok{};
}

}  // namespace

std::string fault_name_of(wire::Opcode opcode) {
  const char* name = wire::describe(opcode).name;
  std::string text = name != nullptr ? name : "";
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c == ' ' ? '_' : upper(c); });
  return text;
}

Expected<FaultRules> parse_fault_rules(std::string_view text, std::string& message) {
  FaultRules all;
  std::optional<std::uint64_t> seed;
  Word left{text, 0};
  while (true) {
    const Word item = left.first(left.text.find(';'));
    Words words(item);
    if (const auto first = words.next()) {
      if (const auto value = first->behind("seed=")) {
        if (auto is_read = read_seed(*value, words, seed, message); !is_read) {
          return is_read.error();
        }
      } else {
        FaultRule rule;
        if (auto is_read = read_rule(*first, words, rule, message); !is_read) {
          return is_read.error();
        }
        if (all.rules.size() == FaultRules::kRulesMax) {
          return Refusal(message)(*first, "more than " + std::to_string(FaultRules::kRulesMax) +
                                              " rules; leave some out");
        }
        all.rules.push_back(rule);
      }
    }
    if (item.text.size() == left.text.size()) break;
    left = left.from(item.text.size() + 1);
  }
  all.seed = seed.value_or(FaultRules::kDefaultSeed);
  all.has_seed = seed.has_value();
  return all;
}

}  // namespace verbatim::link
