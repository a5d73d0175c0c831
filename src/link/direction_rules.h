// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "link/fault_rules.h"
#include "wire/headers/ids.h"

namespace verbatim::link {

/// The rules of one direction and the state of each.
///
/// Each rule has a generator of its own, which the seed and the rule's place start and the packets
/// that the rule looks at advance. So the choices of one rule do not depend on another rule, and
/// the same packets in the same order get the same verdicts.
class DirectionRules {
 public:
  enum class Side : std::uint8_t { kIn, kOut };
  DirectionRules(const FaultRules& rules, Side side);

  /// What rules look at.
  struct Subject {
    std::uint8_t opcode = 0;                  // the BTH's first octet
    std::optional<wire::QpNumber> dest_qp{};  // none: the packet is too short
    std::size_t octets = 0;                   // in which a bit can be wrong
  };
  /// What happens to one packet. A rule sees the packets that the rules before it let pass.
  struct Fate {
    bool is_dropped = false;
    std::uint32_t copies = 0;                 // beside the packet itself
    std::vector<std::size_t> flipped_bits{};  // positions; empty: intact
    std::optional<Duration> delay{};
    std::uint32_t overtaken_by = 0;  // later packets of its flow; 0: none
  };
  [[nodiscard]] Fate judge(const Subject& packet);

 private:
  struct RuleState {
    FaultRule rule{};
    Prng prng;
    std::uint64_t seen = 0;  // packets that the rule looked at
  };
  [[nodiscard]] static bool hits(RuleState& state) noexcept;
  [[nodiscard]] static bool looks_at(const FaultRule& rule, const Subject& packet) noexcept;
  static void apply(RuleState& state, std::size_t packet_octets, Fate& fate);

  std::vector<RuleState> rules_;
};

}  // namespace verbatim::link
