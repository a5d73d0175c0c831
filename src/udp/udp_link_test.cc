// SPDX-License-Identifier: Apache-2.0
#include "udp/udp_link.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "base/prng.h"
#include "udp/test_network.h"
#include "udp/train_receiver.h"
#include "udp/train_sender.h"

namespace verbatim::link {
namespace {

using test::in_a_private_network;
using test::Octets;
using test::own_address;
using test::put;
using test::take;

Octets numbered(std::uint32_t number, std::size_t octets = 32) {
  Octets packet(octets, std::byte{0});
  store_be_at(packet.data() + octets - 4, number);
  return packet;
}

std::uint32_t number_of(const Octets& packet) {
  return load_be_at<std::uint32_t>(packet.data() + packet.size() - 4);
}

/// Two links on two addresses of this process.
class UdpLinkPair : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::open_on(a, {{.gid = address_a}}).ok());
    ASSERT_TRUE(test::open_on(b, {{.gid = address_b}}).ok());
  }
  [[nodiscard]] Outgoing a_to_b(std::uint16_t entropy = 0) const {
    return {.source = address_a,
            .destination = address_b,
            .source_port = a.source_port(address_a, entropy)};
  }
  [[nodiscard]] Outgoing b_to_a(std::uint16_t entropy = 0) const {
    return {.source = address_b,
            .destination = address_a,
            .source_port = b.source_port(address_b, entropy)};
  }

  const wire::Gid address_a = own_address(0);
  const wire::Gid address_b = own_address(1);
  UdpLink a;
  UdpLink b;
};

TEST_F(UdpLinkPair, CarriesPacketsThereAndBack) {
  const Octets question = numbered(1, 100);
  const Octets answer = numbered(2, 20);
  put(a, a_to_b(3), question);
  EXPECT_TRUE(test::stays_silent(b)) << "nothing leaves before flush()";
  a.flush(test::now());
  const auto there = take(b, 1);
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(there[0].octets, question);
  EXPECT_EQ(there[0].packet.source, address_a);
  EXPECT_EQ(there[0].packet.destination, address_b);
  EXPECT_EQ(there[0].packet.source_port, a.source_port(address_a, 3));
  EXPECT_EQ(there[0].packet.hop_limit, 64);
  EXPECT_EQ(there[0].packet.traffic_class, 0);

  put(b, b_to_a(), answer);
  b.flush(test::now());
  const auto back = take(a, 1);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].octets, answer);
  EXPECT_EQ(back[0].packet.source, address_b);
  EXPECT_TRUE(a.receive(test::now()).empty());
  EXPECT_EQ(a.counters().packets_sent, 1U);
  EXPECT_EQ(a.counters().packets_received, 1U);
  EXPECT_EQ(a.counters().send_failures, 0U);
}

TEST_F(UdpLinkPair, SendsAFullBurstByItself) {
  for (std::uint32_t i = 0; i < Burst::kTrains - 1; ++i) put(a, a_to_b(), numbered(i));
  EXPECT_EQ(a.counters().packets_sent, 0U);
  put(a, a_to_b(), numbered(Burst::kTrains - 1));
  EXPECT_EQ(a.counters().packets_sent, Burst::kTrains);
  EXPECT_EQ(take(b, Burst::kTrains).size(), Burst::kTrains);
}

TEST_F(UdpLinkPair, KeepsTheOrderOfBurstsOfEverySize) {
  for (std::uint32_t size = 0; size <= Burst::kTrains + 3; ++size) {
    for (std::uint32_t i = 0; i < size; ++i) put(a, a_to_b(), numbered(i, 16 + i));
    a.flush(test::now());
    const auto got = take(b, size);
    ASSERT_EQ(got.size(), size);
    for (std::uint32_t i = 0; i < size; ++i) ASSERT_EQ(got[i].octets, numbered(i, 16 + i));
  }
}

TEST_F(UdpLinkPair, NeverTakesMoreThanABurst) {
  for (std::uint32_t i = 0; i < 2 * Burst::kTrains; ++i) put(a, a_to_b(), numbered(i));
  ASSERT_TRUE(test::wait_readable(b, test::kPatienceMs));
  EXPECT_LE(b.receive(test::now()).size(), TrainReceiver::kMessages);
}

TEST_F(UdpLinkPair, KeepsTheOrderWithinEachFlowOfAMixedBurst) {
  constexpr std::uint32_t kPackets = 3 * Burst::kTrains;
  Prng prng(7);
  std::map<std::uint16_t, std::vector<std::uint32_t>> sent;
  for (std::uint32_t i = 0; i < kPackets; ++i) {
    const Outgoing to = a_to_b(static_cast<std::uint16_t>(prng.next()));
    sent[to.source_port].push_back(i);
    put(a, to, numbered(i));
  }
  a.flush(test::now());
  std::map<std::uint16_t, std::vector<std::uint32_t>> received;
  for (const auto& kept : take(b, kPackets)) {
    received[kept.packet.source_port].push_back(number_of(kept.octets));
  }
  EXPECT_EQ(sent.size(), UdpLink::kSourcePorts);
  EXPECT_EQ(received, sent);
}

TEST_F(UdpLinkPair, TellsTrafficClassAndHopLimitOnlyWhenAsked) {
  Outgoing to = a_to_b();
  to.traffic_class = 0xba;
  to.hop_limit = 7;
  put(a, to, numbered(1));
  a.flush(test::now());
  const auto before = take(b, 1);
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].packet.traffic_class, 0);
  EXPECT_EQ(before[0].packet.hop_limit, 64);
  b.tell_headers();
  put(a, to, numbered(2));
  a.flush(test::now());
  const auto after = take(b, 1);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].packet.traffic_class, 0xba);
  EXPECT_EQ(after[0].packet.hop_limit, 7);
}

TEST_F(UdpLinkPair, CarriesTrafficClassAndHopLimitOfEachPacket) {
  b.tell_headers();
  // The socket takes on those of the first.
  for (const auto& [traffic_class, hop_limit] :
       {std::array<std::uint8_t, 2>{0xba, 255}, {0, 64}, {0, 1}, {0xba, 64}, {0xba, 255}}) {
    Outgoing to = a_to_b();
    to.traffic_class = traffic_class;
    to.hop_limit = hop_limit;
    put(a, to, numbered(traffic_class * 256U + hop_limit));
  }
  a.flush(test::now());
  const auto got = take(b, 5);
  ASSERT_EQ(got.size(), 5U);
  for (const auto& kept : got) {
    EXPECT_EQ(kept.packet.traffic_class * 256U + kept.packet.hop_limit, number_of(kept.octets));
  }
}

TEST_F(UdpLinkPair, TakesHopLimitZeroForTheDefault) {
  b.tell_headers();
  Outgoing to = a_to_b();
  to.hop_limit = 0;
  put(a, to, numbered(1));
  a.flush(test::now());
  const auto got = take(b, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].packet.hop_limit, 64);
}

TEST_F(UdpLinkPair, CarriesTheLongestPacketAndTheEmptyOne) {
  const Octets longest = numbered(1, kFrameOctets);
  put(a, a_to_b(), longest);
  put(a, a_to_b(), {});
  a.flush(test::now());
  const auto got = take(b, 2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].octets, longest);
  EXPECT_TRUE(got[1].octets.empty());
}

TEST_F(UdpLinkPair, ThrowsAwayWhatIsLongerThanAnyPacket) {
  const int stranger = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  SocketAddress to;
  const socklen_t octets = store_address(to, address_b, kRocePort, 0);
  const Octets overlong(kFrameOctets + 1);
  EXPECT_GT(::sendto(stranger, overlong.data(), overlong.size(), 0, &to.base, octets), 0);
  ::close(stranger);
  put(a, a_to_b(), numbered(5));
  a.flush(test::now());
  const auto got = take(b, 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].octets, numbered(5));
  EXPECT_EQ(b.counters().overlong, 1U);
  EXPECT_EQ(b.counters().packets_received, 1U);
}

TEST_F(UdpLinkPair, CountsWhatCannotLeave) {
  const auto send = [&](const Outgoing& to) {
    put(a, to, numbered(1));
    a.flush(test::now());
  };
  Outgoing foreign_source = a_to_b();
  foreign_source.source = address_b;
  send(foreign_source);
  EXPECT_EQ(a.counters().send_failures, 1U);
  Outgoing foreign_port = a_to_b();
  foreign_port.source_port = 1;
  send(foreign_port);
  EXPECT_EQ(a.counters().send_failures, 2U);
  Outgoing other_family = a_to_b();
  other_family.destination = test::ipv6_loopback();
  send(other_family);
  EXPECT_EQ(a.counters().send_failures, 3U);
  Outgoing unreachable = a_to_b();
  unreachable.destination = test::ipv4(255, 255, 255, 255);  // no socket may broadcast unasked
  put(a, a_to_b(), numbered(1));
  put(a, unreachable, numbered(2));
  put(a, a_to_b(), numbered(3));
  a.flush(test::now());
  EXPECT_EQ(a.counters().send_failures, 4U);
  EXPECT_EQ(a.counters().packets_sent, 2U);
  const auto got = take(b, 2);
  ASSERT_EQ(got.size(), 2U) << "the packets around the failed one";
  EXPECT_EQ(number_of(got[0].octets), 1U);
  EXPECT_EQ(number_of(got[1].octets), 3U);
}

TEST_F(UdpLinkPair, DoesNotMindAPeerThatIsNotThere) {
  b.close();
  for (int i = 0; i < 3; ++i) {  // an ICMP error of the first would fail the second
    put(a, a_to_b(), numbered(1));
    a.flush(test::now());
  }
  EXPECT_EQ(a.counters().packets_sent, 3U);
  EXPECT_EQ(a.counters().send_failures, 0U);
  EXPECT_TRUE(a.receive(test::now()).empty());
}

TEST_F(UdpLinkPair, HasAFewSourcePortsOfItsOwn) {
  std::set<std::uint16_t> ports;
  for (std::uint32_t entropy = 0; entropy < 0x10000; ++entropy) {
    const std::uint16_t port = a.source_port(address_a, static_cast<std::uint16_t>(entropy));
    ASSERT_EQ(port, a.source_port(address_a, static_cast<std::uint16_t>(entropy)));
    ASSERT_GE(port, 0xc000);
    ports.insert(port);
  }
  EXPECT_EQ(ports.size(), UdpLink::kSourcePorts);
  EXPECT_EQ(a.source_port(address_b, 0), 0) << "not our address";

  UdpLink second;  // with the same wishes on the same address
  ASSERT_TRUE(test::open_on(second, {{.gid = address_a}}).ok());
  for (std::uint16_t entropy = 0; entropy < UdpLink::kSourcePorts; ++entropy) {
    EXPECT_EQ(ports.count(second.source_port(address_a, entropy)), 0U);
  }
}

TEST_F(UdpLinkPair, CanBeClosedAndOpenedAgain) {
  EXPECT_EQ(test::open_on(a, {{.gid = address_a}}).error(), Errc::kBusy);
  a.close();
  a.close();
  EXPECT_TRUE(a.next_frame().octets.empty());
  EXPECT_TRUE(a.receive(test::now()).empty());
  EXPECT_TRUE(a.descriptors().empty());
  EXPECT_EQ(a.source_port(address_a, 0), 0);
  a.flush(test::now());
  ASSERT_TRUE(test::open_on(a, {{.gid = address_a}}).ok());
  put(a, a_to_b(), numbered(9));
  a.flush(test::now());
  EXPECT_EQ(take(b, 1).size(), 1U);
}

TEST(UdpLink, ABusyAddressDoesNotStarveAnother) {
  const wire::Gid busy = own_address(0);
  const wire::Gid quiet = own_address(1);
  UdpLink receiver;
  UdpLink sender;
  ASSERT_TRUE(test::open_on(receiver, {{.gid = busy}, {.gid = quiet}}).ok());
  ASSERT_TRUE(test::open_on(sender, {{.gid = own_address(2)}}).ok());
  const auto send_to = [&](const wire::Gid& destination) {
    put(sender,
        {.source = own_address(2),
         .destination = destination,
         .source_port = sender.source_port(own_address(2), 0)},
        numbered(1));
    sender.flush(test::now());
  };
  send_to(busy);
  ASSERT_EQ(take(receiver, 1).size(), 1U);
  send_to(quiet);
  bool seen = false;
  for (int turn = 0; turn < 100 && !seen; ++turn) {
    send_to(busy);
    ASSERT_TRUE(test::wait_readable(receiver, test::kPatienceMs));
    for (const Incoming& packet : receiver.receive(test::now()))
      seen = seen || packet.destination == quiet;
  }
  EXPECT_TRUE(seen);
}

TEST(UdpLink, ReceivesFromEachOfItsAddressesAndSendsFromEach) {
  const std::vector<LocalAddress> both = {{.gid = own_address(0)}, {.gid = own_address(1)}};
  UdpLink link;
  ASSERT_TRUE(test::open_on(link, {both[0], both[1], both[0]}).ok()) << "named twice is once";
  EXPECT_EQ(link.descriptors().size(), 2U);
  for (const auto& from : both) {
    for (const auto& to : both) {
      put(link,
          {.source = from.gid, .destination = to.gid, .source_port = link.source_port(from.gid, 1)},
          numbered(1));
    }
  }
  link.flush(test::now());
  std::set<std::pair<std::uint8_t, std::uint8_t>> directions;
  for (const auto& kept : take(link, 4)) {
    directions.emplace(kept.packet.source.octets[13], kept.packet.destination.octets[13]);
  }
  EXPECT_EQ(directions.size(), 4U);
}

}  // namespace
}  // namespace verbatim::link
