// SPDX-License-Identifier: Apache-2.0
#include "sim/network_link.h"

#include <gtest/gtest.h>

#include "link/faulty_link.h"
#include "link/test_link.h"

namespace verbatim::sim {
namespace {

using link::test::address;
using link::test::at_ms;
using link::test::outgoing;
using link::test::put;
using link::test::received_psns;
using Psns = std::vector<std::uint32_t>;

class NetworkLinkTest : public ::testing::Test {
 protected:
  static void send_all(link::Link& through, std::uint32_t count) {
    for (std::uint32_t psn = 1; psn <= count; ++psn) put(through, at_ms(0), psn);
    through.flush(at_ms(0));
  }

  LossyNetwork network{Faults{.delay = std::chrono::milliseconds(1)}, 1};
  NetworkLink near{network, {address(1)}};
  NetworkLink far{network, {address(2)}};
};

TEST_F(NetworkLinkTest, APacketArrivesAtItsAddressWhenItIsDue) {
  EXPECT_EQ(far.next_due(), Instant::never());
  send_all(near, 1);
  EXPECT_EQ(far.next_due(), at_ms(1));
  EXPECT_EQ(near.next_due(), Instant::never()) << "it is not for this one";
  EXPECT_TRUE(far.receive(at_ms(0)).empty());
  EXPECT_TRUE(near.receive(at_ms(1)).empty());
  EXPECT_EQ(received_psns(far, at_ms(1)), (Psns{1}));
  EXPECT_TRUE(far.receive(at_ms(1)).empty());
  EXPECT_EQ(near.counters().packets_sent, 1U);
  EXPECT_EQ(far.counters().packets_received, 1U);
}

TEST_F(NetworkLinkTest, APacketOfATrainIsAloneOnTheNetwork) {
  send_all(near, 3);
  const link::Outgoing to = outgoing();
  const auto seed = wire::IcrcSeed::roce_v2(to.source, to.destination, to.source_port);
  for (int i = 0; i < 3; ++i) {
    const auto frame = network.take_arrived_at({address(2)}, at_ms(1));
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->source, to.source);
    EXPECT_EQ(wire::verify_icrc(seed, frame->octets), 0);
  }
  EXPECT_TRUE(network.is_empty());
  EXPECT_EQ(near.counters().trains_sent, 1U);
}

TEST_F(NetworkLinkTest, PacketsOfOneFlowArriveAsANumberedTrain) {
  send_all(near, 3);
  const auto arrived = far.receive(at_ms(1));
  ASSERT_EQ(arrived.size(), 1U);
  const link::Outgoing to = outgoing();
  const auto seed = wire::IcrcSeed::roce_v2(to.source, to.destination, to.source_port);
  EXPECT_EQ(arrived[0].source, to.source);
  EXPECT_GT(arrived[0].segment_octets, 0U);
  std::uint16_t number = 0;
  arrived[0].for_each_packet([&](std::span<const std::byte> packet) {
    EXPECT_EQ(wire::verify_icrc(seed, packet, number), number);
    ++number;
  });
  EXPECT_EQ(number, 3);
  EXPECT_EQ(far.counters().packets_received, 3U);
  EXPECT_EQ(far.counters().trains_received, 1U);
}

TEST_F(NetworkLinkTest, PacketsOfDifferentFlowsArriveAlone) {
  link::Outgoing other = outgoing();
  other.source_port = static_cast<std::uint16_t>(other.source_port + 1);
  put(near, at_ms(0), 1);
  put(near, at_ms(0), 2, other);
  put(near, at_ms(0), 3);
  near.flush(at_ms(0));
  EXPECT_EQ(far.receive(at_ms(1)).size(), 3U);
}

TEST_F(NetworkLinkTest, ADamagedFrameThatTheIcrcWouldAcceptIsDropped) {
  send_all(near, 1);
  auto frame = *network.take_arrived_at({address(2)}, at_ms(1));
  wire::change_identification(frame.octets, 0, 77);  // the ICRC cannot tell it from a numbered one
  network.send(at_ms(1), frame);
  EXPECT_EQ(far.receive(at_ms(2)).size(), 1U);
  frame.is_damaged = true;
  network.send(at_ms(2), frame);
  EXPECT_TRUE(far.receive(at_ms(3)).empty());
}

TEST_F(NetworkLinkTest, AFrameToAGroupArrivesAtEachMember) {
  link::Outgoing to = outgoing();
  to.destination.octets[12] = 239;
  network.join(to.destination, {address(1)});
  network.join(to.destination, {address(2)});
  put(near, at_ms(0), 1, to);
  near.flush(at_ms(0));
  EXPECT_EQ(received_psns(near, at_ms(1)), (Psns{1}));
  EXPECT_EQ(received_psns(far, at_ms(1)), (Psns{1}));
  network.leave(to.destination, {address(1)});
  put(near, at_ms(1), 2, to);
  near.flush(at_ms(1));
  EXPECT_TRUE(near.receive(at_ms(2)).empty());
  EXPECT_EQ(received_psns(far, at_ms(2)), (Psns{2}));
  EXPECT_TRUE(network.is_empty());
}

TEST_F(NetworkLinkTest, FaultsWrapItInSimulatedTime) {
  link::FaultyLink faulty(near, link::test::rules_of("out drop first=1; out delay 2ms first=1"));
  send_all(faulty, 3);
  EXPECT_EQ(received_psns(far, at_ms(1)), (Psns{3}));
  EXPECT_EQ(faulty.next_due(), at_ms(2));
  faulty.flush(at_ms(2));
  EXPECT_EQ(received_psns(far, at_ms(3)), (Psns{2}));
}

TEST_F(NetworkLinkTest, ClosedIsSilent) {
  send_all(near, 1);
  far.close();
  EXPECT_EQ(far.next_due(), Instant::never());
  EXPECT_TRUE(far.receive(at_ms(1)).empty());
  EXPECT_TRUE(far.next_frame().octets.empty());
}

}  // namespace
}  // namespace verbatim::sim
