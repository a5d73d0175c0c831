// SPDX-License-Identifier: Apache-2.0
#include "link/burst.h"

#include <gtest/gtest.h>

#include <memory>

#include "link/test_link.h"

namespace verbatim::link {
namespace {

using test::ipv6_address;
using test::outgoing;
using test::write_packet;

class BurstTest : public ::testing::Test {
 protected:
  void put(std::uint32_t psn, std::size_t payload_octets = 40, const Outgoing& to = outgoing()) {
    const Frame frame = burst->next_frame();
    const std::size_t octets =
        write_packet(frame.octets, to, psn, frame.identification, payload_octets);
    burst->commit(to, {.octets = octets, .identification = frame.identification});
  }
  [[nodiscard]] std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> packets;
    for (const Burst::Train& train : burst->trains()) packets.push_back(train.packets);
    return packets;
  }
  /// Each packet's ICRC is right for the place that it has.
  void expect_numbered() const {
    for (const Burst::Train& train : burst->trains()) {
      const auto seed =
          wire::IcrcSeed::roce_v2(train.to.source, train.to.destination, train.to.source_port);
      for (std::size_t number = 0; number < train.packets; ++number) {
        const auto packet = burst->packet(train, number);
        EXPECT_EQ(wire::verify_icrc(seed, packet), train.identification(number));
      }
    }
  }

  std::unique_ptr<Burst> burst = std::make_unique<Burst>();
};

TEST_F(BurstTest, PacketsOfOneFlowAndLengthMakeATrain) {
  for (std::uint32_t psn = 0; psn < 5; ++psn) put(psn);
  put(5, 8);  // the last one may be shorter
  put(6, 8);  // nothing follows a shorter one
  EXPECT_EQ(lengths(), (std::vector<std::size_t>{6, 1}));
  expect_numbered();
  EXPECT_EQ(burst->packet(burst->trains()[0], 5).size(), 24U);
  EXPECT_EQ(test::psn_of(burst->packet(burst->trains()[0], 3)), 3U);
}

TEST_F(BurstTest, AnotherDestinationOrALongerPacketBeginsATrain) {
  Outgoing elsewhere = outgoing();
  elsewhere.destination = test::address(3);
  put(0);
  put(1, 40, elsewhere);
  put(2, 44, elsewhere);
  EXPECT_EQ(lengths(), (std::vector<std::size_t>{1, 1, 1}));
  expect_numbered();
}

TEST_F(BurstTest, NoPacketOfAnIpv6TrainIsNumbered) {
  const Outgoing to{
      .source = ipv6_address(1), .destination = ipv6_address(2), .source_port = 0xc123};
  put(0, 40, to);
  put(1, 40, to);
  EXPECT_EQ(lengths(), (std::vector<std::size_t>{2}));
  EXPECT_EQ(burst->trains()[0].identification(1), 0);
}

TEST_F(BurstTest, PacketsThatWereWrittenForAnotherPlaceAreChanged) {
  const Outgoing to = outgoing();
  const Frame frame = burst->next_frame();
  std::size_t octets = 0;
  for (std::uint16_t i = 0; i < 3; ++i) {
    octets += write_packet(frame.octets.subspan(octets), to, i, static_cast<std::uint16_t>(7 + i));
  }
  burst->commit(to, {.octets = octets, .packets = 3, .identification = 7});
  EXPECT_EQ(lengths(), (std::vector<std::size_t>{3}));
  expect_numbered();
}

TEST_F(BurstTest, WithoutTrainsEachPacketIsAlone) {
  burst->use_trains(false);
  put(0);
  put(1);
  EXPECT_EQ(lengths(), (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(burst->next_frame().packets_max, 1U);
}

TEST_F(BurstTest, ATrainHasALimit) {
  for (std::uint32_t psn = 0; psn <= Burst::kTrainPackets; ++psn) put(psn);
  EXPECT_EQ(lengths(), (std::vector<std::size_t>{Burst::kTrainPackets, 1}));
  expect_numbered();
}

TEST_F(BurstTest, HasRoomForAPacketOfAnyLengthUntilItIsFull) {
  std::uint32_t psn = 0;
  while (!burst->is_full()) {
    ASSERT_GE(burst->next_frame().octets.size(), kFrameOctets);
    put(psn++, 4096);
  }
  EXPECT_EQ(burst->load().packets, psn);
  EXPECT_EQ(burst->load().octets, psn * (16U + 4096U));
  burst->clear();
  EXPECT_TRUE(burst->is_empty());
  EXPECT_FALSE(burst->is_full());
  EXPECT_EQ(burst->load().octets, 0U);
}

TEST_F(BurstTest, KnowsWhichPacketsOfATrainHaveLeft) {
  for (std::uint32_t psn = 0; psn < Burst::kTrainPackets; ++psn) put(psn);
  Burst::Train& train = burst->trains()[0];
  EXPECT_FALSE(train.was_sent(0));
  train.note_all_sent();
  EXPECT_TRUE(train.was_sent(0));
  EXPECT_TRUE(train.was_sent(Burst::kTrainPackets - 1));
  burst->clear();
  put(0);
  EXPECT_FALSE(train.was_sent(0));
  train.note_all_sent();
  EXPECT_TRUE(train.was_sent(0));
  EXPECT_FALSE(train.was_sent(1));
}

}  // namespace
}  // namespace verbatim::link
