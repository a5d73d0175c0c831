// SPDX-License-Identifier: Apache-2.0
#include "ib/ib_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "host/test_fabric_data.h"
#include "wire/crc/icrc.h"
#include "wire/headers/lrh.h"
#include "wire/headers/native_packet.h"

namespace verbatim::link {
namespace {

using namespace std::chrono_literals;
using host::FabricDataArea;
using host::test::DataFabric;

constexpr Instant kStart = Instant::at(1s);
constexpr wire::Gid kSourceGid{.octets = {0xfe, 0x80, 1}};
constexpr wire::Gid kDestinationGid{.octets = {0xfe, 0x80, 2}};
const wire::LocalRoute kRoute{
    .source = wire::Lid{3}, .destination = wire::Lid{7}, .level = wire::ServiceLevel{2}};

Outgoing local() { return {.local = kRoute}; }
Outgoing global() {
  return {.source = kSourceGid,
          .destination = kDestinationGid,
          .traffic_class = 5,
          .hop_limit = 9,
          .local = kRoute,
          .flow_label = 0x12345};
}

/// Two processes and a fabric between them that the test moves packets through.
class IbLinkTest : public testing::Test {
 protected:
  IbLinkTest()
      : fabric_(folder_.place()),
        sender_server_(fabric_.attach(sender_port_, 0)),
        receiver_server_(fabric_.attach(receiver_port_, 1)) {
    sender_.open();
    receiver_.open();
  }

  void send(const Outgoing& to, std::size_t octets, std::byte value = std::byte{0x5a}) {
    const Frame frame = sender_.next_frame();
    ASSERT_GE(frame.octets.size(), octets);
    std::fill_n(frame.octets.begin(), octets, value);
    sender_.commit(kStart, to, octets);
  }
  /// What the fabric gets; it keeps the buffer.
  std::vector<std::byte> take() {
    const auto posted = sender_server_.take_posted();
    EXPECT_TRUE(posted);
    if (!posted) return {};
    const auto packet = sender_server_.packet(posted->buffer);
    taken_.push_back(posted->buffer);
    return {packet.begin(), packet.end()};
  }
  Incoming pass() {
    EXPECT_TRUE(receiver_server_.put(take()));
    const auto arrived = receiver_.receive(kStart);
    EXPECT_EQ(arrived.size(), 1U);
    return arrived.empty() ? Incoming{} : arrived.front();
  }
  void free_all() {
    for (const std::uint32_t buffer : taken_) sender_server_.free_buffer(buffer);
    taken_.clear();
  }

  host::test::FabricFolder folder_;
  DataFabric fabric_;
  host::FabricDataPort sender_port_;
  host::FabricDataPort receiver_port_;
  host::FabricDataServerPort& sender_server_;
  host::FabricDataServerPort& receiver_server_;
  IbLink sender_{sender_port_};
  IbLink receiver_{receiver_port_};
  std::vector<std::uint32_t> taken_;
};

TEST_F(IbLinkTest, ALocalPacketHasALocalRouteHeader) {
  send(local(), 100);
  sender_.flush(kStart);
  const auto packet = take();
  const auto lrh = wire::LrhView::parse(packet);
  ASSERT_TRUE(lrh);
  EXPECT_EQ(packet.size(), 108U);
  EXPECT_EQ(lrh->packet_words(), 27U);
  EXPECT_EQ(lrh->next_header(), wire::LinkNextHeader::kBth);
  EXPECT_EQ(lrh->source(), kRoute.source);
  EXPECT_EQ(lrh->destination(), kRoute.destination);
  EXPECT_EQ(lrh->level(), kRoute.level);
}

TEST_F(IbLinkTest, TellsTheFabricTheRateOfThePath) {
  Outgoing slow = local();
  slow.local.rate = 16;
  send(slow, 100);
  sender_.flush(kStart);
  const auto posted = sender_server_.take_posted();
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->rate, 16);
  sender_server_.free_buffer(posted->buffer);
}

TEST_F(IbLinkTest, BringsWhatALocalPacketSays) {
  send(local(), 100, std::byte{0x11});
  sender_.flush(kStart);
  const Incoming incoming = pass();
  EXPECT_EQ(incoming.local, kRoute);
  EXPECT_EQ(incoming.destination, wire::Gid{});
  EXPECT_EQ(incoming.octets.size(), 100U);
  EXPECT_EQ(incoming.octets.front(), std::byte{0x11});
  EXPECT_EQ(receiver_.counters().packets_received, 1U);
}

TEST_F(IbLinkTest, BringsWhatAGlobalPacketSays) {
  send(global(), 64);
  sender_.flush(kStart);
  const Incoming incoming = pass();
  EXPECT_EQ(incoming.local, kRoute);
  EXPECT_EQ(incoming.source, kSourceGid);
  EXPECT_EQ(incoming.destination, kDestinationGid);
  EXPECT_EQ(incoming.traffic_class, 5);
  EXPECT_EQ(incoming.flow_label, 0x12345U);
  EXPECT_EQ(incoming.hop_limit, 9);
  EXPECT_EQ(incoming.octets.size(), 64U);
}

TEST_F(IbLinkTest, SendsNothingWithoutALocalRoute) {
  send({.source = kSourceGid, .destination = kDestinationGid}, 64);
  sender_.flush(kStart);
  EXPECT_EQ(sender_.counters().packets_sent, 0U);
  EXPECT_EQ(sender_.counters().send_failures, 1U);
  EXPECT_FALSE(sender_server_.has_posted());
}

TEST_F(IbLinkTest, IsHeldWhileABurstHasNoRoomAndLosesNothing) {
  std::size_t sent = 0;
  for (; !sender_.is_held() && sent < FabricDataArea::kBuffers; ++sent) {
    send(local(), 64);
    sender_.flush(kStart);
  }
  EXPECT_TRUE(sender_.is_held());
  EXPECT_GT(sent + Burst::kTrains, FabricDataArea::kBuffers);
  EXPECT_EQ(sender_.counters().packets_sent, sent);
  EXPECT_EQ(sender_.counters().send_failures, 0U);
  const Instant due = sender_.next_due();
  EXPECT_NE(due, Instant::never());
  for (std::size_t i = 0; i < sent; ++i) (void)take();
  free_all();
  sender_.flush(due);
  EXPECT_FALSE(sender_.is_held());
  EXPECT_EQ(sender_.next_due(), Instant::never());
}

TEST_F(IbLinkTest, AThreadThatWaitsIsWokenByAPacket) {
  ASSERT_EQ(receiver_.descriptors().size(), 1U);
  const int descriptor = receiver_.descriptors().front();
  while (!receiver_.prepare_to_wait()) (void)receiver_.receive(kStart);
  EXPECT_FALSE(host::test::is_readable(descriptor));
  send(local(), 64);
  sender_.flush(kStart);
  EXPECT_TRUE(receiver_server_.put(take()));
  receiver_server_.ring();
  EXPECT_TRUE(host::test::is_readable(descriptor));
  EXPECT_FALSE(receiver_.prepare_to_wait());
  EXPECT_EQ(receiver_.receive(kStart).size(), 1U);
  EXPECT_TRUE(receiver_.prepare_to_wait());
  EXPECT_FALSE(host::test::is_readable(descriptor));
}

TEST_F(IbLinkTest, AThreadThatWaitsForAClosedLinkIsNotWokenForEver) {
  const int descriptor = receiver_.descriptors().front();
  send(local(), 64);
  sender_.flush(kStart);
  EXPECT_TRUE(receiver_server_.put(take()));
  receiver_server_.ring();
  receiver_.close();
  EXPECT_TRUE(host::test::is_readable(descriptor));
  EXPECT_TRUE(receiver_.prepare_to_wait());
  EXPECT_FALSE(host::test::is_readable(descriptor));
}

TEST_F(IbLinkTest, DoesNothingWhenClosed) {
  sender_.close();
  EXPECT_TRUE(sender_.next_frame().octets.empty());
  EXPECT_TRUE(sender_.receive(kStart).empty());
  EXPECT_TRUE(sender_.descriptors().empty());
  EXPECT_FALSE(sender_.is_held());
}

}  // namespace
}  // namespace verbatim::link
