// SPDX-License-Identifier: Apache-2.0
#include "transport/qp_state.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace verbatim::transport {
namespace {

using Words = std::set<std::string>;

/// The table of docs/PROTOCOL.md, section 4, written out again.
struct Line {
  const char* from;
  const char* to;
  const char* types;
  const char* required;
  const char* optional;
};
constexpr Line kTable[] = {
    {"RESET", "INIT", "RC UC XRC_INI XRC_TGT", "PKEY_INDEX PORT ACCESS_FLAGS", ""},
    {"RESET", "INIT", "UD", "PKEY_INDEX PORT QKEY", ""},
    {"RESET", "INIT", "SMI GSI", "PKEY_INDEX QKEY", ""},
    {"RESET", "INIT", "RAW_PACKET", "PORT", ""},
    {"INIT", "INIT", "RC UC XRC_INI XRC_TGT", "", "PKEY_INDEX PORT ACCESS_FLAGS"},
    {"INIT", "INIT", "UD", "", "PKEY_INDEX PORT QKEY"},
    {"INIT", "INIT", "SMI GSI", "", "PKEY_INDEX QKEY"},
    {"INIT", "RTR", "RC XRC_TGT", "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
     "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
    {"INIT", "RTR", "UC XRC_INI", "AV PATH_MTU DEST_QPN RQ_PSN",
     "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
    {"INIT", "RTR", "UD SMI GSI", "", "PKEY_INDEX QKEY"},
    {"RTR", "RTS", "RC", "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
     "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER"},
    {"RTR", "RTS", "XRC_INI", "TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC",
     "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"},
    {"RTR", "RTS", "XRC_TGT", "TIMEOUT SQ_PSN",
     "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
    {"RTR", "RTS", "UC", "SQ_PSN", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"},
    {"RTR", "RTS", "UD SMI GSI", "SQ_PSN", "CUR_STATE QKEY"},
    {"RTS", "RTS", "RC XRC_TGT", "",
     "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER"},
    {"RTS", "RTS", "UC XRC_INI", "", "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE"},
    {"RTS", "RTS", "UD SMI GSI", "", "CUR_STATE QKEY"},
    {"RTS", "SQD", "RC UC UD SMI GSI RAW_PACKET XRC_INI XRC_TGT", "", "EN_SQD_ASYNC_NOTIFY"},
    {"SQD", "RTS", "RC XRC_TGT", "",
     "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
    {"SQD", "RTS", "UC XRC_INI", "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"},
    {"SQD", "RTS", "UD SMI GSI", "", "CUR_STATE QKEY"},
    {"SQD", "SQD", "RC", "",
     "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH "
     "ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE"},
    {"SQD", "SQD", "XRC_INI", "",
     "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX "
     "PATH_MIG_STATE"},
    {"SQD", "SQD", "XRC_TGT", "",
     "PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER "
     "PATH_MIG_STATE"},
    {"SQD", "SQD", "UC", "", "AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"},
    {"SQD", "SQD", "UD SMI GSI", "", "PKEY_INDEX QKEY"},
    {"SQE", "RTS", "UC", "", "CUR_STATE ACCESS_FLAGS"},
    {"SQE", "RTS", "UD SMI GSI", "", "CUR_STATE QKEY"},
};

const std::map<std::string, unsigned> kTypes = {{"SMI", 0},     {"GSI", 1},     {"RC", 2},
                                                {"UC", 3},      {"UD", 4},      {"RAW_PACKET", 8},
                                                {"XRC_INI", 9}, {"XRC_TGT", 10}};
constexpr std::array<const char*, 7> kStates = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
const std::map<std::string, unsigned> kBits = {{"STATE", 0},
                                               {"CUR_STATE", 1},
                                               {"EN_SQD_ASYNC_NOTIFY", 2},
                                               {"ACCESS_FLAGS", 3},
                                               {"PKEY_INDEX", 4},
                                               {"PORT", 5},
                                               {"QKEY", 6},
                                               {"AV", 7},
                                               {"PATH_MTU", 8},
                                               {"TIMEOUT", 9},
                                               {"RETRY_CNT", 10},
                                               {"RNR_RETRY", 11},
                                               {"RQ_PSN", 12},
                                               {"MAX_QP_RD_ATOMIC", 13},
                                               {"ALT_PATH", 14},
                                               {"MIN_RNR_TIMER", 15},
                                               {"SQ_PSN", 16},
                                               {"MAX_DEST_RD_ATOMIC", 17},
                                               {"PATH_MIG_STATE", 18},
                                               {"CAP", 19},
                                               {"DEST_QPN", 20},
                                               {"RATE_LIMIT", 25}};

Words words_of(const char* text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

std::uint32_t mask_of(const Words& words) {
  std::uint32_t mask = 0;
  for (const auto& word : words) mask |= 1U << kBits.at(word);
  return mask;
}

/// The documented rule for one transition of one type.
struct Expectation {
  bool exists = false;
  Words required{};
  Words optional{};
};

Expectation expect(const std::string& type, const std::string& from, const std::string& to) {
  if (to == "RESET") return {.exists = true};
  if (to == "ERR") return {.exists = from != "RESET"};
  for (const Line& line : kTable) {
    if (from == line.from && to == line.to && words_of(line.types).count(type) != 0) {
      return {
          .exists = true, .required = words_of(line.required), .optional = words_of(line.optional)};
    }
  }
  return {};
}

bool allowed(unsigned type, std::size_t from, std::size_t to, std::uint32_t mask) {
  const Status status = check_transition(QpType(static_cast<std::uint8_t>(type)),
                                         QpState(static_cast<std::uint8_t>(from)),
                                         QpState(static_cast<std::uint8_t>(to)), QpMask{mask});
  if (!status) {
    EXPECT_EQ(status.error(), Errc::kInvalidArgument);
  }
  return status.ok();
}

/// Calls `visit(type, from, to, expectation)` for all 8 * 7 * 7 of them.
template <typename Visit>
void for_each_transition(Visit&& visit) {
  for (const auto& [type, value] : kTypes) {
    for (std::size_t from = 0; from < kStates.size(); ++from) {
      for (std::size_t to = 0; to < kStates.size(); ++to) {
        SCOPED_TRACE(type + ' ' + kStates[from] + "->" + kStates[to]);
        visit(value, from, to, expect(type, kStates[from], kStates[to]));
      }
    }
  }
}

TEST(QpState, EveryAttributeOfEveryTransitionIsListedAsDocumented) {
  std::size_t entries = 0;
  for_each_transition(
      [&](unsigned type, std::size_t from, std::size_t to, const Expectation& expected) {
        const Transition row = transition(QpType(static_cast<std::uint8_t>(type)),
                                          QpState(static_cast<std::uint8_t>(from)),
                                          QpState(static_cast<std::uint8_t>(to)));
        EXPECT_EQ(row.exists, expected.exists);
        for (const auto& [name, bit] : kBits) {
          const QpMask mask{1U << bit};
          EXPECT_EQ(names(row.required, mask), expected.required.count(name) != 0) << name;
          EXPECT_EQ(names(row.optional, mask), expected.optional.count(name) != 0) << name;
          ++entries;
        }
      });
  EXPECT_EQ(entries, 8U * 7 * 7 * 22);
}

TEST(QpState, EveryAttributeOfEveryTransitionIsJudgedAsDocumented) {
  std::size_t entries = 0;
  for_each_transition([&](unsigned type, std::size_t from, std::size_t to,
                          const Expectation& expected) {
    const std::uint32_t required = mask_of(expected.required);
    EXPECT_EQ(allowed(type, from, to, required), expected.exists);
    EXPECT_EQ(allowed(type, from, to, required | 1U), expected.exists);
    for (const auto& [name, bit] : kBits) {
      const std::uint32_t mask = 1U << bit;
      const bool is_required = expected.required.count(name) != 0;
      const bool may_be_named =
          is_required || expected.optional.count(name) != 0 || name == "STATE";
      EXPECT_EQ(allowed(type, from, to, required | mask), expected.exists && may_be_named) << name;
      EXPECT_EQ(allowed(type, from, to, (required | 1U) & ~mask), expected.exists && !is_required)
          << "without " << name;
      ++entries;
    }
  });
  EXPECT_EQ(entries, 8U * 7 * 7 * 22);
}

TEST(QpState, AllOptionalAttributesMayBeNamedTogether) {
  for_each_transition(
      [&](unsigned type, std::size_t from, std::size_t to, const Expectation& expected) {
        const std::uint32_t all = mask_of(expected.required) | mask_of(expected.optional);
        EXPECT_EQ(allowed(type, from, to, all | 1U), expected.exists);
        EXPECT_EQ(allowed(type, from, to, all), expected.exists);
      });
}

TEST(QpState, BitsThatNameNoAttributeAreRefused) {
  Words documented;
  for (const auto& [name, bit] : kBits) documented.insert(name);
  const std::uint32_t known = mask_of(documented);
  for_each_transition(
      [&](unsigned type, std::size_t from, std::size_t to, const Expectation& expected) {
        for (unsigned bit = 0; bit < 32; ++bit) {
          if ((known >> bit & 1U) != 0) continue;
          EXPECT_FALSE(allowed(type, from, to, mask_of(expected.required) | 1U << bit)) << bit;
        }
      });
}

TEST(QpState, TheCurrentStateIsNamedOnlyWhereItMayHaveChangedByItself) {
  const std::set<std::string> may_be_named_in = {"RTR", "RTS", "SQD", "SQE"};
  for_each_transition(
      [&](unsigned type, std::size_t from, std::size_t to, const Expectation& expected) {
        if (may_be_named_in.count(kStates[from]) != 0) return;
        EXPECT_FALSE(allowed(type, from, to, mask_of(expected.required) | 0x3));
      });
}

TEST(QpState, ResetAndErrorTakeTheStateAlone) {
  for_each_transition(
      [&](unsigned type, std::size_t from, std::size_t to, const Expectation& /*expected*/) {
        const bool is_reset = kStates[to] == std::string("RESET");
        const bool is_error = kStates[to] == std::string("ERR");
        if (!is_reset && !is_error) return;
        const bool exists = is_reset || kStates[from] != std::string("RESET");
        EXPECT_EQ(allowed(type, from, to, 0x1), exists);
        EXPECT_FALSE(allowed(type, from, to, 0x1 | 1U << 1));
        EXPECT_FALSE(allowed(type, from, to, 0x1 | 1U << 4));
        EXPECT_FALSE(allowed(type, from, to, 0xffff'ffff));
      });
}

TEST(QpState, TypesAndStatesThatDoNotExistHaveNoTransition) {
  for (unsigned type = 0; type < 256; ++type) {
    bool is_known = false;
    for (const auto& [name, value] : kTypes) is_known = is_known || value == type;
    if (is_known) continue;
    for (std::size_t from = 0; from < 7; ++from) {
      for (std::size_t to = 0; to < 7; ++to) EXPECT_FALSE(allowed(type, from, to, 0x1)) << type;
    }
  }
  for (std::size_t state = 7; state < 256; ++state) {
    EXPECT_FALSE(allowed(2, state, 0, 0x1)) << state;
    EXPECT_FALSE(allowed(2, state, 6, 0x1)) << state;
    EXPECT_FALSE(allowed(2, 3, state, 0x1)) << state;
    EXPECT_FALSE(allowed(2, state, state, 0x1)) << state;
  }
}

TEST(QpState, ACommonReliableConnectionComesUp) {
  using enum QpMask;
  using enum QpState;
  const auto step = [](QpState from, QpState to, QpMask mask) {
    return check_transition(QpType::kRc, from, to, mask).ok();
  };
  EXPECT_TRUE(step(kReset, kInit, kState | kPKeyIndex | kPort | kAccess));
  EXPECT_TRUE(step(
      kInit, kReadyToReceive,
      kState | kAddress | kPathMtu | kDestQp | kReceivePsn | kMaxDestReadAtomic | kMinRnrTimer));
  EXPECT_TRUE(step(kReadyToReceive, kReadyToSend,
                   kState | kTimeout | kRetryCount | kRnrRetry | kSendPsn | kMaxReadAtomic));
  EXPECT_FALSE(step(kReset, kReadyToReceive, kState));
  EXPECT_FALSE(step(kInit, kReadyToSend, kState));
  EXPECT_FALSE(step(kReadyToSend, kReadyToReceive, kState));
}

}  // namespace
}  // namespace verbatim::transport
