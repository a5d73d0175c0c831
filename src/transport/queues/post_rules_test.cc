// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/post_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

namespace verbatim::transport {
namespace {

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

/// A request without an error, except that the service may not have the operation.
SendRequest good_request(SendOpcode opcode, std::vector<memory::Sge>& list) {
  list = {{.address = 0x1000, .octets = 8, .lkey = {}}};
  if (opcode == SendOpcode::kFlush) list.clear();
  return {.opcode = opcode, .list = list, .remote_address = 0x2000};
}

/// Whether the request is refused, or is taken and fails with a status, or succeeds.
constexpr WcStatus kRefused = WcStatus::kGeneral;
WcStatus judge(QpType type, const SendRequest& request) {
  const Expected<Flaw> said = check_post(type, request);
  EXPECT_TRUE(said.ok() || said.error() == Errc::kInvalidArgument);
  if (!said) return kRefused;
  EXPECT_EQ(said->status == WcStatus::kSuccess, said->reason == Reason::kNone);
  return said->status;
}
bool is_allowed(QpType type, const SendRequest& request) {
  return judge(type, request) == WcStatus::kSuccess;
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
      const bool sends = kTypes[i] != QpType::kRawPacket && kTypes[i] != QpType::kXrcTarget;
      const auto wanted = row.exists[i] == '+' ? WcStatus::kSuccess
                          : sends              ? WcStatus::kLocalQpOperation
                                               : kRefused;
      EXPECT_EQ(judge(kTypes[i], good_request(row.opcode, list)), wanted)
          << "opcode " << static_cast<int>(row.opcode) << " on type "
          << static_cast<int>(kTypes[i]);
    }
  }
}

TEST(PostRules, AnUndefinedOpcodeIsRefusedByEveryService) {
  std::vector<memory::Sge> list;
  for (const int raw : {10, 11, 12, 13, 16, 127, 255}) {
    for (const QpType type : kTypes) {
      EXPECT_EQ(judge(type, good_request(SendOpcode(static_cast<std::uint8_t>(raw)), list)),
                kRefused);
    }
  }
  for (const int raw : {5, 6, 7, 11, 255}) {
    EXPECT_FALSE(
        is_allowed(QpType(static_cast<std::uint8_t>(raw)), good_request(SendOpcode::kSend, list)));
  }
}

TEST(PostRules, AtomicsMoveEightOctets) {
  std::vector<memory::Sge> list;
  for (const auto opcode :
       {SendOpcode::kCompareSwap, SendOpcode::kFetchAdd, SendOpcode::kAtomicWrite}) {
    for (const std::uint32_t octets : {0U, 4U, 7U, 9U, 16U}) {
      EXPECT_EQ(judge(QpType::kRc, of_octets(opcode, octets, list)), WcStatus::kLocalLength);
    }
    // The responder checks the alignment.
    for (std::uint64_t off = 1; off < 8; ++off) {
      EXPECT_TRUE(
          is_allowed(QpType::kRc, of_octets(opcode, 8, list, SendFlags::kNone, 0x2000 + off)));
    }
    EXPECT_TRUE(is_allowed(QpType::kRc, of_octets(opcode, 8, list)));
    list = {{.address = 1, .octets = 3, .lkey = {}}, {.address = 9, .octets = 5, .lkey = {}}};
    EXPECT_TRUE(is_allowed(QpType::kRc, {.opcode = opcode, .list = list}));
  }
}

TEST(PostRules, OperationsThatReturnDataCannotBeInline) {
  std::vector<memory::Sge> list;
  for (const Row& row : kRows) {
    SendRequest request = good_request(row.opcode, list);
    request.flags = SendFlags::kInline;
    const bool comes_back = row.opcode == SendOpcode::kRead ||
                            row.opcode == SendOpcode::kCompareSwap ||
                            row.opcode == SendOpcode::kFetchAdd;
    EXPECT_EQ(judge(QpType::kRc, request), comes_back ? kRefused : WcStatus::kSuccess)
        << static_cast<int>(row.opcode);
  }
}

TEST(PostRules, AFlushCarriesNoData) {
  std::vector<memory::Sge> list;
  EXPECT_EQ(judge(QpType::kRc, of_octets(SendOpcode::kFlush, 1, list)), kRefused);
  EXPECT_TRUE(is_allowed(QpType::kRc, of_octets(SendOpcode::kFlush, 0, list)));
}

TEST(PostRules, AnAddressHandleIsOfTheQueuePairsDomain) {
  std::vector<memory::Sge> list;
  SendRequest request = good_request(SendOpcode::kSend, list);
  request.is_foreign_path = true;
  EXPECT_EQ(judge(QpType::kUd, request), WcStatus::kLocalQpOperation);
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
