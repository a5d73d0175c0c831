// SPDX-License-Identifier: Apache-2.0
#include "device/forwarded_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace verbatim::device {
namespace {

constexpr std::array kPacket{std::byte{1}, std::byte{2}, std::byte{3}};

link::Incoming arrived() {
  link::Incoming incoming;
  incoming.source.octets.fill(0x11);
  incoming.destination.octets.fill(0x22);
  incoming.source_port = 0xc0de;
  incoming.traffic_class = 0x68;
  incoming.hop_limit = 63;
  incoming.octets = kPacket;
  return incoming;
}

TEST(ForwardedPacket, ArrivesAsItWasForwarded) {
  std::vector<std::byte> message(sizeof(ForwardHeader) + kPacket.size());
  ASSERT_EQ(pack_forwarded(arrived(), message), message.size());
  const auto unpacked = unpack_forwarded(message);
  ASSERT_TRUE(unpacked);
  EXPECT_EQ(unpacked->source, arrived().source);
  EXPECT_EQ(unpacked->destination, arrived().destination);
  EXPECT_EQ(unpacked->source_port, 0xc0de);
  EXPECT_EQ(unpacked->traffic_class, 0x68);
  EXPECT_EQ(unpacked->hop_limit, 63);
  EXPECT_TRUE(std::ranges::equal(unpacked->octets, kPacket));
  EXPECT_EQ(unpacked->octets.data(), message.data() + sizeof(ForwardHeader)) << "it is copied once";
}

TEST(ForwardedPacket, IsNotWrittenWhereItDoesNotFit) {
  std::vector<std::byte> message(sizeof(ForwardHeader) + kPacket.size() - 1, std::byte{0xee});
  EXPECT_EQ(pack_forwarded(arrived(), message), 0U);
  EXPECT_EQ(std::ranges::count(message, std::byte{0xee}), std::ssize(message));
}

TEST(ForwardedPacket, AMessageWithoutAPacketHasNone) {
  const std::vector<std::byte> message(sizeof(ForwardHeader));
  for (std::size_t octets = 0; octets <= message.size(); ++octets) {
    EXPECT_FALSE(unpack_forwarded(std::span(message).first(octets))) << octets;
  }
}

}  // namespace
}  // namespace verbatim::device
