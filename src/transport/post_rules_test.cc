// SPDX-License-Identifier: Apache-2.0
#include "transport/post_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

namespace verbatim::transport {
namespace {

constexpr std::uint32_t kMtu = 1024;
constexpr std::array kTypes = {QpType::kSmi,          QpType::kGsi,      QpType::kRc,
                               QpType::kUc,           QpType::kUd,       QpType::kRawPacket,
                               QpType::kXrcInitiator, QpType::kXrcTarget};

/// The operations that each service has (IBA Vol 1, table 38, and annexes A14 and A19): SMI, GSI,
/// RC, UC, UD, raw packet, XRC initiator, XRC target.
struct Row {
  SendOpcode opcode;
  std::string_view exists;
};
constexpr Row kRows[] = {
    {SendOpcode::kWrite, "..++..+."},      {SendOpcode::kWriteImm, "..++..+."},
    {SendOpcode::kSend, "+++++.+."},       {SendOpcode::kSendImm, "+++++.+."},
    {SendOpcode::kRead, "..+...+."},       {SendOpcode::kCompareSwap, "..+...+."},
    {SendOpcode::kFetchAdd, "..+...+."},   {SendOpcode::kLocalInvalidate, "..++..+."},
    {SendOpcode::kBindWindow, "..++..+."}, {SendOpcode::kSendInvalidate, "..+...+."},
    {SendOpcode::kFlush, "..+...+."},      {SendOpcode::kAtomicWrite, "..+...+."},
};

/// A request that nothing is wrong with but, perhaps, the service.
SendRequest good_request(SendOpcode opcode, std::vector<memory::Sge>& list) {
  list = {{.address = 0x1000, .octets = 8, .lkey = {}}};
  if (opcode == SendOpcode::kFlush) list.clear();
  return {.opcode = opcode, .list = list, .remote_address = 0x2000};
}

bool is_allowed(QpType type, const SendRequest& request) {
  const Status said = check_post(type, request, kMtu);
  EXPECT_TRUE(said.ok() || said.error() == Errc::kInvalidArgument);
  return said.ok();
}

SendRequest of_octets(SendOpcode opcode, std::uint32_t octets, std::vector<memory::Sge>& list,
                      SendFlags flags = SendFlags::kNone, std::uint64_t remote = 0x2000) {
  list = {{.address = 0x1000, .octets = octets, .lkey = {}}};
  return {.opcode = opcode, .flags = flags, .list = list, .remote_address = remote};
}

TEST(PostRules, EachServiceHasItsOperations) {
  std::vector<memory::Sge> list;
  for (const Row& row : kRows) {
    for (std::size_t i = 0; i < kTypes.size(); ++i) {
      EXPECT_EQ(is_allowed(kTypes[i], good_request(row.opcode, list)), row.exists[i] == '+')
          << "opcode " << static_cast<int>(row.opcode) << " on type "
          << static_cast<int>(kTypes[i]);
    }
  }
}

TEST(PostRules, WhatNobodyDefinedExistsNowhere) {
  std::vector<memory::Sge> list;
  for (const int raw : {10, 11, 12, 13, 16, 127, 255}) {
    for (const QpType type : kTypes) {
      EXPECT_FALSE(
          is_allowed(type, good_request(SendOpcode(static_cast<std::uint8_t>(raw)), list)));
    }
  }
  for (const int raw : {5, 6, 7, 11, 255}) {
    EXPECT_FALSE(
        is_allowed(QpType(static_cast<std::uint8_t>(raw)), good_request(SendOpcode::kSend, list)));
  }
}

TEST(PostRules, AtomicsMoveEightAlignedOctets) {
  std::vector<memory::Sge> list;
  for (const auto opcode :
       {SendOpcode::kCompareSwap, SendOpcode::kFetchAdd, SendOpcode::kAtomicWrite}) {
    for (const std::uint32_t octets : {0U, 4U, 7U, 9U, 16U}) {
      EXPECT_FALSE(is_allowed(QpType::kRc, of_octets(opcode, octets, list)));
    }
    for (std::uint64_t off = 1; off < 8; ++off) {
      EXPECT_FALSE(
          is_allowed(QpType::kRc, of_octets(opcode, 8, list, SendFlags::kNone, 0x2000 + off)));
    }
    EXPECT_TRUE(is_allowed(QpType::kRc, of_octets(opcode, 8, list)));
    list = {{.address = 1, .octets = 3, .lkey = {}}, {.address = 9, .octets = 5, .lkey = {}}};
    EXPECT_TRUE(is_allowed(QpType::kRc, {.opcode = opcode, .list = list}));
  }
}

TEST(PostRules, WhatComesBackCannotBeInline) {
  std::vector<memory::Sge> list;
  for (const Row& row : kRows) {
    SendRequest request = good_request(row.opcode, list);
    request.flags = SendFlags::kInline;
    const bool comes_back = row.opcode == SendOpcode::kRead ||
                            row.opcode == SendOpcode::kCompareSwap ||
                            row.opcode == SendOpcode::kFetchAdd;
    EXPECT_EQ(is_allowed(QpType::kRc, request), !comes_back) << static_cast<int>(row.opcode);
  }
}

TEST(PostRules, AFlushCarriesNoData) {
  std::vector<memory::Sge> list;
  EXPECT_FALSE(is_allowed(QpType::kRc, of_octets(SendOpcode::kFlush, 1, list)));
  EXPECT_TRUE(is_allowed(QpType::kRc, of_octets(SendOpcode::kFlush, 0, list)));
}

TEST(PostRules, ADatagramIsOnePacket) {
  std::vector<memory::Sge> list;
  for (const QpType type : {QpType::kUd, QpType::kGsi, QpType::kSmi}) {
    for (const auto opcode : {SendOpcode::kSend, SendOpcode::kSendImm}) {
      EXPECT_TRUE(is_allowed(type, of_octets(opcode, 0, list)));
      EXPECT_TRUE(is_allowed(type, of_octets(opcode, kMtu, list)));
      EXPECT_FALSE(is_allowed(type, of_octets(opcode, kMtu + 1, list)));
      list = {{.address = 0, .octets = kMtu, .lkey = {}}, {.address = 0, .octets = 1, .lkey = {}}};
      EXPECT_FALSE(is_allowed(type, {.opcode = opcode, .list = list}));
    }
  }
}

TEST(PostRules, AConnectionCarriesLongMessages) {
  std::vector<memory::Sge> list;
  for (const auto opcode : {SendOpcode::kSend, SendOpcode::kWrite, SendOpcode::kWriteImm}) {
    for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kXrcInitiator}) {
      EXPECT_TRUE(is_allowed(type, of_octets(opcode, 0x8000'0000, list)));
      EXPECT_TRUE(is_allowed(type, of_octets(opcode, 0, list)));
    }
  }
  EXPECT_TRUE(is_allowed(QpType::kRc, of_octets(SendOpcode::kRead, 0, list)));
}

}  // namespace
}  // namespace verbatim::transport
