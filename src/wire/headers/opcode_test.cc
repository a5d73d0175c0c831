// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/opcode.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace verbatim::wire {
namespace {

/// One opcode as the specification's tables have it (IBA Vol 1, table 38; annexes A14, A17, A19).
struct Expected {
  std::string name;
  std::string headers;  // between BTH and payload, in the order of the wire
  unsigned header_octets;
  char payload;  // '-' none, 'M' exactly the MTU, '1' one to MTU, '0' none to MTU, '8' eight octets
};

/// All defined opcodes; any other is unknown.
const std::map<unsigned, Expected>& table() {
  static const std::map<unsigned, Expected> kTable = {
      // Reliable connection.
      {0x00, {"RC SEND First", "", 0, 'M'}},
      {0x01, {"RC SEND Middle", "", 0, 'M'}},
      {0x02, {"RC SEND Last", "", 0, '1'}},
      {0x03, {"RC SEND Last with Immediate", "ImmDt", 4, '1'}},
      {0x04, {"RC SEND Only", "", 0, '0'}},
      {0x05, {"RC SEND Only with Immediate", "ImmDt", 4, '0'}},
      {0x06, {"RC RDMA WRITE First", "RETH", 16, 'M'}},
      {0x07, {"RC RDMA WRITE Middle", "", 0, 'M'}},
      {0x08, {"RC RDMA WRITE Last", "", 0, '1'}},
      {0x09, {"RC RDMA WRITE Last with Immediate", "ImmDt", 4, '1'}},
      {0x0a, {"RC RDMA WRITE Only", "RETH", 16, '0'}},
      {0x0b, {"RC RDMA WRITE Only with Immediate", "RETH ImmDt", 20, '0'}},
      {0x0c, {"RC RDMA READ Request", "RETH", 16, '-'}},
      {0x0d, {"RC RDMA READ Response First", "AETH", 4, 'M'}},
      {0x0e, {"RC RDMA READ Response Middle", "", 0, 'M'}},
      {0x0f, {"RC RDMA READ Response Last", "AETH", 4, '1'}},
      {0x10, {"RC RDMA READ Response Only", "AETH", 4, '0'}},
      {0x11, {"RC Acknowledge", "AETH", 4, '-'}},
      {0x12, {"RC ATOMIC Acknowledge", "AETH AtomicAckETH", 12, '-'}},
      {0x13, {"RC CmpSwap", "AtomicETH", 28, '-'}},
      {0x14, {"RC FetchAdd", "AtomicETH", 28, '-'}},
      {0x16, {"RC SEND Last with Invalidate", "IETH", 4, '1'}},
      {0x17, {"RC SEND Only with Invalidate", "IETH", 4, '0'}},
      {0x1c, {"RC FLUSH", "FETH RETH", 20, '-'}},
      {0x1d, {"RC ATOMIC WRITE", "RETH", 16, '8'}},
      // Unreliable connection.
      {0x20, {"UC SEND First", "", 0, 'M'}},
      {0x21, {"UC SEND Middle", "", 0, 'M'}},
      {0x22, {"UC SEND Last", "", 0, '1'}},
      {0x23, {"UC SEND Last with Immediate", "ImmDt", 4, '1'}},
      {0x24, {"UC SEND Only", "", 0, '0'}},
      {0x25, {"UC SEND Only with Immediate", "ImmDt", 4, '0'}},
      {0x26, {"UC RDMA WRITE First", "RETH", 16, 'M'}},
      {0x27, {"UC RDMA WRITE Middle", "", 0, 'M'}},
      {0x28, {"UC RDMA WRITE Last", "", 0, '1'}},
      {0x29, {"UC RDMA WRITE Last with Immediate", "ImmDt", 4, '1'}},
      {0x2a, {"UC RDMA WRITE Only", "RETH", 16, '0'}},
      {0x2b, {"UC RDMA WRITE Only with Immediate", "RETH ImmDt", 20, '0'}},
      // Unreliable datagram.
      {0x64, {"UD SEND Only", "DETH", 8, '0'}},
      {0x65, {"UD SEND Only with Immediate", "DETH ImmDt", 12, '0'}},
      // Congestion notification.
      {0x81, {"CNP", "reserved", 16, '-'}},
      // Extended reliable connection: XRCETH first in requests, none in responses.
      {0xa0, {"XRC SEND First", "XRCETH", 4, 'M'}},
      {0xa1, {"XRC SEND Middle", "XRCETH", 4, 'M'}},
      {0xa2, {"XRC SEND Last", "XRCETH", 4, '1'}},
      {0xa3, {"XRC SEND Last with Immediate", "XRCETH ImmDt", 8, '1'}},
      {0xa4, {"XRC SEND Only", "XRCETH", 4, '0'}},
      {0xa5, {"XRC SEND Only with Immediate", "XRCETH ImmDt", 8, '0'}},
      {0xa6, {"XRC RDMA WRITE First", "XRCETH RETH", 20, 'M'}},
      {0xa7, {"XRC RDMA WRITE Middle", "XRCETH", 4, 'M'}},
      {0xa8, {"XRC RDMA WRITE Last", "XRCETH", 4, '1'}},
      {0xa9, {"XRC RDMA WRITE Last with Immediate", "XRCETH ImmDt", 8, '1'}},
      {0xaa, {"XRC RDMA WRITE Only", "XRCETH RETH", 20, '0'}},
      {0xab, {"XRC RDMA WRITE Only with Immediate", "XRCETH RETH ImmDt", 24, '0'}},
      {0xac, {"XRC RDMA READ Request", "XRCETH RETH", 20, '-'}},
      {0xad, {"XRC RDMA READ Response First", "AETH", 4, 'M'}},
      {0xae, {"XRC RDMA READ Response Middle", "", 0, 'M'}},
      {0xaf, {"XRC RDMA READ Response Last", "AETH", 4, '1'}},
      {0xb0, {"XRC RDMA READ Response Only", "AETH", 4, '0'}},
      {0xb1, {"XRC Acknowledge", "AETH", 4, '-'}},
      {0xb2, {"XRC ATOMIC Acknowledge", "AETH AtomicAckETH", 12, '-'}},
      {0xb3, {"XRC CmpSwap", "XRCETH AtomicETH", 32, '-'}},
      {0xb4, {"XRC FetchAdd", "XRCETH AtomicETH", 32, '-'}},
      {0xb6, {"XRC SEND Last with Invalidate", "XRCETH IETH", 8, '1'}},
      {0xb7, {"XRC SEND Only with Invalidate", "XRCETH IETH", 8, '0'}},
      {0xbc, {"XRC FLUSH", "XRCETH FETH RETH", 24, '-'}},
      {0xbd, {"XRC ATOMIC WRITE", "XRCETH RETH", 20, '8'}},
  };
  return kTable;
}

/// The headers as offsets_of() orders them, so that the order is part of the comparison.
std::string headers_of(const OpcodeInfo& info) {
  constexpr std::pair<OpcodeInfo::Header, const char*> kNames[] = {
      {OpcodeInfo::kDeth, "DETH"},
      {OpcodeInfo::kXrcEth, "XRCETH"},
      {OpcodeInfo::kFeth, "FETH"},
      {OpcodeInfo::kReth, "RETH"},
      {OpcodeInfo::kAtomicEth, "AtomicETH"},
      {OpcodeInfo::kAeth, "AETH"},
      {OpcodeInfo::kAtomicAckEth, "AtomicAckETH"},
      {OpcodeInfo::kImmDt, "ImmDt"},
      {OpcodeInfo::kIeth, "IETH"},
      {OpcodeInfo::kCnpReserved, "reserved"}};
  std::map<std::size_t, std::string> by_offset;
  for (const auto& [bit, name] : kNames) {
    if (info.has(bit)) by_offset[info.offset_of(bit)] += name;
  }
  std::string text;
  for (const auto& [offset, name] : by_offset) text += (text.empty() ? "" : " ") + name;
  return text;
}

char payload_of(const OpcodeInfo& info) {
  switch (info.payload) {
    case PayloadRule::kNone:
      return '-';
    case PayloadRule::kExactlyMtu:
      return 'M';
    case PayloadRule::kOneToMtu:
      return '1';
    case PayloadRule::kUpToMtu:
      return '0';
    case PayloadRule::kEight:
      return '8';
  }
  return '?';
}

TEST(OpcodeTable, HasAllThatTheSpecificationHasAndNothingElse) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = describe(Opcode{static_cast<std::uint8_t>(raw)});
    SCOPED_TRACE(testing::Message() << "opcode 0x" << std::hex << raw);
    const auto expected = table().find(raw);
    ASSERT_EQ(info.known(), expected != table().end());
    if (!info.known()) continue;
    EXPECT_EQ(info.name, expected->second.name);
    EXPECT_EQ(headers_of(info), expected->second.headers);
    EXPECT_EQ(unsigned{info.header_octets}, expected->second.header_octets);
    EXPECT_EQ(payload_of(info), expected->second.payload);
  }
  EXPECT_EQ(table().size(), 25U + 12U + 2U + 1U + 25U);
}

TEST(OpcodeTable, TheFirstHeaderStandsBehindTheBth) {
  EXPECT_EQ(describe(Opcode{0x06}).offset_of(OpcodeInfo::kReth), 12U);
  EXPECT_EQ(describe(Opcode{0x0b}).offset_of(OpcodeInfo::kImmDt), 28U);
  EXPECT_EQ(describe(Opcode{0x1c}).offset_of(OpcodeInfo::kReth), 16U);
  EXPECT_EQ(describe(Opcode{0x12}).offset_of(OpcodeInfo::kAtomicAckEth), 16U);
  EXPECT_EQ(describe(Opcode{0xab}).offset_of(OpcodeInfo::kImmDt), 32U);
  EXPECT_EQ(describe(Opcode{0x65}).offset_of(OpcodeInfo::kImmDt), 20U);
}

TEST(OpcodeTable, FirstStartsAMessageLastEndsItAndOnlyDoesBoth) {
  for (const auto& [raw, expected] : table()) {
    const OpcodeInfo& info = describe(Opcode{static_cast<std::uint8_t>(raw)});
    const std::string& name = expected.name;
    const auto says = [&](const char* word) { return name.find(word) != std::string::npos; };
    EXPECT_EQ(info.starts_message, !says("Middle") && !says("Last")) << name;
    EXPECT_EQ(info.ends_message, !says("First") && !says("Middle")) << name;
  }
}

TEST(OpcodeTable, ResponsesAreReadResponsesAndAcknowledges) {
  for (const auto& [raw, expected] : table()) {
    const bool is_response = expected.name.find("Response") != std::string::npos ||
                             expected.name.find("cknowledge") != std::string::npos;
    EXPECT_EQ(describe(Opcode{static_cast<std::uint8_t>(raw)}).is_response, is_response)
        << expected.name;
  }
}

TEST(Opcode, IsATransportAndAnOperation) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Opcode opcode{static_cast<std::uint8_t>(raw)};
    EXPECT_EQ(static_cast<unsigned>(transport_of(opcode)), raw / 32 * 32);
    EXPECT_EQ(static_cast<unsigned>(operation_of(opcode)), raw % 32);
    EXPECT_EQ(opcode_of(transport_of(opcode), operation_of(opcode)), opcode);
  }
  EXPECT_EQ(opcode_of(Transport::kUd, Operation::kSendOnly), Opcode{0x64});
  EXPECT_EQ(opcode_of(Transport::kXrc, Operation::kAcknowledge), Opcode{0xb1});
  EXPECT_EQ(opcode_of(Transport::kRc, Operation::kAtomicWrite), Opcode{0x1d});
}

}  // namespace
}  // namespace verbatim::wire
