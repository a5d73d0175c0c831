// SPDX-License-Identifier: Apache-2.0
#include "transport/rules/request.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using Extra = Request::Extra;

constexpr std::uint64_t kAddress = 0x1122'3344'5566'7780;
constexpr wire::MemoryKey kKey{0xabcd'ef01};
constexpr std::uint32_t kImmediate = 0x0403'0201;
constexpr std::uint32_t kInvalidated = 0x5566'7788;
constexpr std::uint64_t kCompare = 0x1111'2222'3333'4444;
constexpr std::uint64_t kSwap = 0x5555'6666'7777'8888;

/// One request, as an Only packet and as a work request. `octets` are those of its payload or of
/// the range that it names.
struct Row {
  Operation operation;
  SendOpcode opcode;
  std::uint32_t octets;
  Request expected;
};

// SEND names no memory; atomics are of eight octets by definition (IBA Vol 1, 9.4).
const Row kRows[] = {
    {Operation::kSendOnly, SendOpcode::kSend, 40, {.kind = RequestKind::kSend}},
    {Operation::kSendOnlyImm,
     SendOpcode::kSendImm,
     40,
     {.kind = RequestKind::kSend, .extra = Extra::kImmediate, .imm_or_key = kImmediate}},
    {Operation::kSendOnlyInvalidate,
     SendOpcode::kSendInvalidate,
     40,
     {.kind = RequestKind::kSend, .extra = Extra::kInvalidate, .imm_or_key = kInvalidated}},
    {Operation::kWriteOnly,
     SendOpcode::kWrite,
     40,
     {.kind = RequestKind::kWrite, .key = kKey, .address = kAddress, .octets = 40}},
    {Operation::kWriteOnlyImm,
     SendOpcode::kWriteImm,
     40,
     {.kind = RequestKind::kWrite,
      .extra = Extra::kImmediate,
      .imm_or_key = kImmediate,
      .key = kKey,
      .address = kAddress,
      .octets = 40}},
    {Operation::kReadRequest,
     SendOpcode::kRead,
     4000,
     {.kind = RequestKind::kRead, .key = kKey, .address = kAddress, .octets = 4000}},
    {Operation::kCompareSwap,
     SendOpcode::kCompareSwap,
     8,
     {.kind = RequestKind::kCompareSwap,
      .key = kKey,
      .address = kAddress,
      .octets = 8,
      .compare = kCompare,
      .operand = kSwap}},
    {Operation::kFetchAdd,
     SendOpcode::kFetchAdd,
     8,
     {.kind = RequestKind::kFetchAdd,
      .key = kKey,
      .address = kAddress,
      .octets = 8,
      .operand = kSwap}},
    {Operation::kFlush,
     SendOpcode::kFlush,
     4000,
     {.kind = RequestKind::kFlush,
      .flush = {.selectivity = wire::Feth::kWholeRegion, .placement = wire::Feth::kPersistence},
      .key = kKey,
      .address = kAddress,
      .octets = 4000}},
    {Operation::kAtomicWrite,
     SendOpcode::kAtomicWrite,
     8,
     {.kind = RequestKind::kAtomicWrite,
      .key = kKey,
      .address = kAddress,
      .octets = 8,
      .operand = kSwap}},
};

wire::Immediate immediate() {
  wire::Immediate made{};
  std::memcpy(&made, &kImmediate, sizeof made);
  return made;
}

Request from_packet(const Row& row, bool solicited) {
  auto headers = request_headers(wire::Transport::kRc, row.operation, wire::Psn(500));
  headers.bth.solicited = solicited;
  headers.reth = {.address = kAddress, .rkey = kKey, .dma_octets = row.octets};
  headers.atomic_eth = {
      .address = kAddress, .rkey = kKey, .swap_or_add = kSwap, .compare = kCompare};
  headers.feth = row.expected.flush;
  headers.imm_dt.immediate = immediate();
  headers.ieth.rkey = wire::MemoryKey{kInvalidated};
  Octets payload;
  const auto rule = wire::describe(headers.bth.opcode).payload;
  if (rule != wire::PayloadRule::kNone) payload.resize(row.octets);
  if (rule == wire::PayloadRule::kEight) std::memcpy(payload.data(), &kSwap, sizeof kSwap);
  return request_of(TestPacket(headers, payload).view());
}

Request from_entry(const Row& row, bool solicited) {
  SendEntry entry;
  entry.opcode = row.opcode;
  if (solicited) entry.flags = SendFlags::kSolicited;
  entry.octets = row.opcode == SendOpcode::kFlush ? 0 : row.octets;
  entry.flush_octets = row.octets;
  entry.remote_address = kAddress;
  entry.rkey = kKey;
  entry.compare_or_add = row.opcode == SendOpcode::kCompareSwap ? kCompare : kSwap;
  entry.swap = kSwap;
  entry.flush = row.expected.flush;
  entry.immediate = immediate();
  entry.invalidate_key = wire::MemoryKey{kInvalidated};
  Request request = request_of(entry);
  if (request.kind == RequestKind::kAtomicWrite) request.operand = kSwap;
  return request;
}

/// Only what its kind uses is compared.
void expect_same(const Request& got, const Request& expected) {
  EXPECT_EQ(got.kind, expected.kind);
  EXPECT_EQ(got.extra, expected.extra);
  if (expected.extra != Extra::kNone) {
    EXPECT_EQ(got.imm_or_key, expected.imm_or_key);
  }
  EXPECT_EQ(got.octets, expected.octets);
  if (expected.kind == RequestKind::kSend) return;
  EXPECT_EQ(got.key, expected.key);
  EXPECT_EQ(got.address, expected.address);
  if (is_of_eight(expected.kind)) {
    EXPECT_EQ(got.operand, expected.operand);
  }
  if (expected.kind == RequestKind::kCompareSwap) {
    EXPECT_EQ(got.compare, expected.compare);
  }
  if (expected.kind == RequestKind::kFlush) {
    EXPECT_EQ(got.flush.selectivity, expected.flush.selectivity);
    EXPECT_EQ(got.flush.placement, expected.flush.placement);
  }
}

TEST(Request, IsTheSameFromAPacketAndFromASendQueue) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(static_cast<int>(row.opcode));
    for (const bool solicited : {false, true}) {
      expect_same(from_packet(row, solicited), row.expected);
      expect_same(from_entry(row, solicited), row.expected);
      EXPECT_EQ(from_packet(row, solicited).solicited, solicited);
      EXPECT_EQ(from_entry(row, solicited).solicited, solicited);
    }
  }
}

TEST(Request, TakesAReceiveIfItIsASendOrBringsAnImmediate) {
  for (const Row& row : kRows) {
    const bool expected =
        row.expected.kind == RequestKind::kSend || row.opcode == SendOpcode::kWriteImm;
    EXPECT_EQ(takes_receive(from_packet(row, false)), expected) << static_cast<int>(row.opcode);
    EXPECT_EQ(takes_receive(from_entry(row, false)), expected) << static_cast<int>(row.opcode);
  }
}

TEST(Request, AResponseAndLocalWorkAreNone) {
  for (const auto operation :
       {Operation::kReadResponseFirst, Operation::kReadResponseMiddle, Operation::kReadResponseLast,
        Operation::kReadResponseOnly, Operation::kAcknowledge, Operation::kAtomicAcknowledge}) {
    EXPECT_EQ(kind_of(operation), RequestKind::kNone);
  }
  EXPECT_EQ(kind_of(SendOpcode::kLocalInvalidate), RequestKind::kNone);
  EXPECT_EQ(kind_of(SendOpcode::kBindWindow), RequestKind::kNone);
}

TEST(Request, EveryPacketOfAMessageIsOfItsKind) {
  for (const auto operation : {Operation::kSendFirst, Operation::kSendMiddle, Operation::kSendLast,
                               Operation::kSendLastImm, Operation::kSendLastInvalidate}) {
    EXPECT_EQ(kind_of(operation), RequestKind::kSend);
  }
  for (const auto operation : {Operation::kWriteFirst, Operation::kWriteMiddle,
                               Operation::kWriteLast, Operation::kWriteLastImm}) {
    EXPECT_EQ(kind_of(operation), RequestKind::kWrite);
  }
}

TEST(Request, AnAtomicWriteOfAnotherLengthBringsNoValue) {
  auto headers = request_headers(wire::Transport::kRc, Operation::kAtomicWrite, wire::Psn(500));
  for (const std::size_t octets : {0U, 4U, 12U}) {
    EXPECT_EQ(request_of(TestPacket(headers, octets_of(octets)).view()).operand, 0U);
  }
}

}  // namespace
}  // namespace verbatim::transport
