// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "wire/headers/ids.h"
#include "wire/headers/opcode.h"

namespace verbatim::link {

/// One deliberate fault: which packets it looks at, which of those it hits, and what happens to
/// them.
struct FaultRule {
  enum class Direction : std::uint8_t { kIn, kOut, kBoth };
  enum class Action : std::uint8_t { kDrop, kDuplicate, kReorder, kCorrupt, kDelay };
  static constexpr std::uint64_t kAlways = std::uint64_t{1} << 32;

  Direction direction = Direction::kBoth;
  Action action = Action::kDrop;

  // Which packets it looks at, and counts.
  std::bitset<256> opcodes{};          // by the BTH's first octet
  std::optional<wire::QpNumber> qp{};  // BTH.DestQP; none: any

  // Which of those it hits: all four must agree.
  std::uint64_t after = 0;                  // skips this many
  std::uint64_t first = ~std::uint64_t{0};  // then considers this many, and no more
  std::uint64_t every = 1;                  // of these the n-th, the 2n-th, ...
  std::uint64_t chance = kAlways;           // and hits each with this probability, in 2^-32

  // What happens to them.
  std::uint32_t by = 1;   // kReorder: this many later packets overtake it
  Duration delay_min{0};  // kDelay
  Duration delay_max{0};  // kDelay: uniform between the two
};

/// The value of VERBATIM_FAULTS.
struct FaultRules {
  static constexpr std::size_t kRulesMax = 64;
  static constexpr std::uint32_t kByMax = 64;  // packets
  static constexpr Duration kDelayMax = std::chrono::seconds(10);
  static constexpr std::uint64_t kDefaultSeed = 1;

  std::uint64_t seed = kDefaultSeed;  // determines which packets a probability hits
  bool has_seed = false;              // the text names it
  std::vector<FaultRule> rules;       // in the order of the text
};

/// Reads rules (docs/FAULTS.md): items with semicolons between them, each `seed=NUMBER` or a
/// direction, a fault and options:
///
///     seed=7; out drop 1%; in corrupt 0.5% opcode=RC_SEND_ONLY; both delay 200us..1ms every=10
///
/// On failure `message` starts with the column of the mistake, counted from one, and says what
/// would be right.
[[nodiscard]] Expected<FaultRules> parse_fault_rules(std::string_view text, std::string& message);

/// How a rule writes an opcode: its printed name in capitals, with '_' for each space.
[[nodiscard]] std::string fault_name_of(wire::Opcode opcode);

}  // namespace verbatim::link
