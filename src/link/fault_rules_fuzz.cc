// SPDX-License-Identifier: Apache-2.0
// Any text as fault rules: it is either understood, with every value inside its limits, or refused
// with a column inside of the text and a message of one printable line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "link/fault_rules.h"

namespace {

using verbatim::link::FaultRule;
using verbatim::link::FaultRules;

void check(const FaultRule& rule) {
  VB_ASSERT(rule.opcodes.any());
  VB_ASSERT(rule.chance <= FaultRule::kAlways);
  VB_ASSERT(rule.every >= 1 && rule.first >= 1);
  VB_ASSERT(rule.by >= 1 && rule.by <= FaultRules::kByMax);
  VB_ASSERT(rule.delay_min <= rule.delay_max && rule.delay_max <= FaultRules::kDelayMax);
  VB_ASSERT(rule.delay_min >= verbatim::Duration(0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text;
  std::for_each(data, data + size, [&](std::uint8_t octet) { text += static_cast<char>(octet); });
  std::string message;
  const auto rules = verbatim::link::parse_fault_rules(text, message);
  if (rules.ok()) {
    VB_ASSERT(message.empty() && rules->rules.size() <= FaultRules::kRulesMax);
    std::for_each(rules->rules.begin(), rules->rules.end(), check);
    return 0;
  }
  VB_ASSERT(message.starts_with("column ") && message.size() < 320);
  const unsigned long column = std::stoul(message.substr(7));
  VB_ASSERT(column >= 1 && column <= size + 1);
  VB_ASSERT(
      std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  return 0;
}
