// SPDX-License-Identifier: Apache-2.0
#include "transport/segmentation.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace verbatim::transport {
namespace {

using wire::Operation;

constexpr std::array<std::uint32_t, 5> kMtus = {256, 512, 1024, 2048, 4096};

/// The opcodes of IBA Vol 1, 9.4.1 and 9.4.3, written out.
struct Family {
  SendOpcode opcode;
  Operation first;
  Operation middle;
  Operation last;
  Operation only;
};
constexpr Family kFamilies[] = {
    {SendOpcode::kSend, Operation{0x00}, Operation{0x01}, Operation{0x02}, Operation{0x04}},
    {SendOpcode::kSendImm, Operation{0x00}, Operation{0x01}, Operation{0x03}, Operation{0x05}},
    {SendOpcode::kSendInvalidate, Operation{0x00}, Operation{0x01}, Operation{0x16},
     Operation{0x17}},
    {SendOpcode::kWrite, Operation{0x06}, Operation{0x07}, Operation{0x08}, Operation{0x0a}},
    {SendOpcode::kWriteImm, Operation{0x06}, Operation{0x07}, Operation{0x09}, Operation{0x0b}},
};

TEST(Segmentation, CountsPacketsAndGivesAnEmptyMessageOne) {
  for (const std::uint32_t mtu : kMtus) {
    EXPECT_EQ(packet_count(0, mtu), 1U);
    EXPECT_EQ(packet_count(1, mtu), 1U);
    EXPECT_EQ(packet_count(mtu, mtu), 1U);
    EXPECT_EQ(packet_count(mtu + 1, mtu), 2U);
    EXPECT_EQ(packet_count(2 * mtu, mtu), 2U);
    EXPECT_EQ(packet_count(kMaxMessageOctets, mtu), 0x8000'0000U / mtu);
  }
}

TEST(Segmentation, AMessageOfOnePacketIsAnOnly) {
  for (const auto& [opcode, first, middle, last, only] : kFamilies) {
    for (const std::uint32_t mtu : kMtus) {
      for (const std::uint32_t octets : {0U, 1U, mtu - 1, mtu}) {
        const MessagePacket part = message_packet(opcode, octets, mtu, 0);
        EXPECT_EQ(part.operation, only);
        EXPECT_EQ(part.offset, 0U);
        EXPECT_EQ(part.octets, octets);
        EXPECT_TRUE(part.is_first);
        EXPECT_TRUE(part.is_last);
      }
    }
  }
}

TEST(Segmentation, ALongerMessageBeginsWithFirstAndEndsWithLast) {
  for (const auto& [opcode, first, middle, last, only] : kFamilies) {
    for (const std::uint32_t mtu : kMtus) {
      for (const std::uint32_t octets : {mtu + 1, 2 * mtu, 2 * mtu + 1, 5 * mtu - 1, 5 * mtu}) {
        const std::uint32_t packets = (octets - 1) / mtu + 1;
        std::uint32_t covered = 0;
        for (std::uint32_t i = 0; i < packets; ++i) {
          const MessagePacket part = message_packet(opcode, octets, mtu, i);
          const bool is_last = i + 1 == packets;
          EXPECT_EQ(part.operation, i == 0 ? first : is_last ? last : middle);
          EXPECT_EQ(part.offset, covered);
          if (!is_last) {
            EXPECT_EQ(part.octets, mtu);
          }
          EXPECT_EQ(part.is_first, i == 0);
          EXPECT_EQ(part.is_last, is_last);
          covered += part.octets;
        }
        EXPECT_EQ(covered, octets);
      }
    }
  }
}

TEST(Segmentation, TheLongestMessageIsDividedWithoutOverflow) {
  constexpr auto kLongest = static_cast<std::uint32_t>(kMaxMessageOctets);
  for (const std::uint32_t mtu : kMtus) {
    const std::uint32_t last = kLongest / mtu - 1;
    const MessagePacket part = message_packet(SendOpcode::kWrite, kLongest, mtu, last);
    EXPECT_EQ(part.operation, Operation::kWriteLast);
    EXPECT_EQ(part.offset, kLongest - mtu);
    EXPECT_EQ(part.octets, mtu);
    EXPECT_EQ(message_packet(SendOpcode::kWrite, kLongest, mtu, last - 1).operation,
              Operation::kWriteMiddle);
  }
}

TEST(Segmentation, KnowsWhatIsAnsweredWithDataAndWhatNeedsNoPacket) {
  constexpr SendOpcode kAnswered[] = {SendOpcode::kRead, SendOpcode::kCompareSwap,
                                      SendOpcode::kFetchAdd, SendOpcode::kFlush,
                                      SendOpcode::kAtomicWrite};
  constexpr SendOpcode kLocal[] = {SendOpcode::kLocalInvalidate, SendOpcode::kBindWindow};
  for (const SendOpcode opcode : kAnswered) {
    EXPECT_TRUE(is_answered(opcode));
    EXPECT_FALSE(is_local(opcode));
  }
  for (const SendOpcode opcode : kLocal) {
    EXPECT_FALSE(is_answered(opcode));
    EXPECT_TRUE(is_local(opcode));
  }
  for (const Family& family : kFamilies) {
    EXPECT_FALSE(is_answered(family.opcode));
    EXPECT_FALSE(is_local(family.opcode));
  }
}

}  // namespace
}  // namespace verbatim::transport
