// SPDX-License-Identifier: Apache-2.0
#include "connect/subnet_client.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <utility>

#include "host/test_fabric.h"
#include "wire/headers/mad.h"

namespace verbatim::connect {
namespace {

using host::test::FabricFolder;
using host::test::ServedFabric;
using namespace std::chrono_literals;

constexpr std::uint32_t kKnownAddress = 0x7f40'0001;

std::array<std::byte, wire::Mad::kSize> request() {
  std::array<std::byte, wire::Mad::kSize> octets{};
  octets[0] = std::byte{wire::MadHeader::kBaseVersion};
  octets[1] = std::byte{3};
  octets[100] = std::byte{0x77};
  return octets;
}

/// The process of a fabric that returns every datagram, and a client of it.
struct SubnetClientTest : testing::Test {
  FabricFolder folder;
  ServedFabric fabric{folder.place()};
  device::FabricPort port{.node = "h0", .number = 1, .sm_lid = wire::Lid{3}};
  SubnetClient client;
  Instant now = Instant::at(1s);

  SubnetClientTest() {
    ::setenv("VERBATIM_FABRIC", folder.fabric().c_str(), 1);
    ::setenv("VERBATIM_NODE", "h0", 1);
    auto opened = SubnetClient::open(port);
    EXPECT_TRUE(opened);
    if (opened) client = std::move(*opened);
  }
  ~SubnetClientTest() override {
    ::unsetenv("VERBATIM_FABRIC");
    ::unsetenv("VERBATIM_NODE");
  }

  SubnetToken post() {
    const auto token = client.post(now, port, request(), 100ms);
    EXPECT_TRUE(token);
    return *token;
  }
  /// Waits until something has arrived.
  void receive() {
    pollfd readable{.fd = client.descriptor(), .events = POLLIN, .revents = 0};
    (void)::poll(&readable, 1, -1);
    client.receive();
  }
};

TEST_F(SubnetClientTest, AnAnswerHasTheTokenOfItsRequest) {
  const SubnetToken first = post();
  const SubnetToken second = post();
  EXPECT_NE(first, second);
  for (const SubnetToken expected : {first, second}) {
    while (!client.has_answers()) receive();
    const auto answer = client.poll_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->token, expected);
    EXPECT_TRUE(answer->is_answered);
    EXPECT_EQ(answer->octets[100], std::byte{0x77});
  }
  EXPECT_EQ(client.next_timeout(), Instant::never());
}

TEST_F(SubnetClientTest, ARequestThatComesBackWithoutAnAnswerIsGivenUp) {
  fabric.swallows_datagrams = true;
  const SubnetToken token = post();
  ServedFabric::await(fabric.swallowed, 1);
  host::UserMadHeader header;
  header.status = 110;
  auto returned = request();
  returned[15] = static_cast<std::byte>(token);
  fabric.do_in_thread([&] {
    (void)fabric.server.deliver(fabric.last_client, header,
                                std::span(returned).first<host::kMadHeaderOctets>());
  });
  receive();
  const auto answer = client.poll_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->token, token);
  EXPECT_FALSE(answer->is_answered);
}

TEST_F(SubnetClientTest, AStoppedFabricIsGivenUpByTime) {
  fabric.swallows_datagrams = true;
  const SubnetToken token = post();
  EXPECT_EQ(client.next_timeout(), now + 100ms + SubnetClient::kGrace);
  client.handle_timeout(now + 1s);
  EXPECT_FALSE(client.has_answers());
  client.handle_timeout(now + 100ms + SubnetClient::kGrace);
  const auto answer = client.poll_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->token, token);
  EXPECT_FALSE(answer->is_answered);
}

TEST_F(SubnetClientTest, TheEndOfTheFabricEndsAllRequestsAndTheConnection) {
  fabric.swallows_datagrams = true;
  const SubnetToken first = post();
  const SubnetToken second = post();
  fabric.end();
  receive();
  EXPECT_EQ(client.poll_answer()->token, first);
  EXPECT_EQ(client.poll_answer()->token, second);
  EXPECT_TRUE(client.has_ended());
  (void)post();
  EXPECT_FALSE(client.poll_answer()->is_answered);
}

TEST_F(SubnetClientTest, WithoutASubnetManagerThereIsNoAnswer) {
  port.sm_lid = wire::Lid::kReserved;
  const SubnetToken token = post();
  const auto answer = client.poll_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->token, token);
  EXPECT_FALSE(answer->is_answered);
}

TEST_F(SubnetClientTest, NodesAreFoundByTheirAddresses) {
  const auto found = SubnetClient::find_node(client.descriptor(), kKnownAddress);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->octets[15], 7);
  EXPECT_EQ(SubnetClient::find_node(client.descriptor(), kKnownAddress + 1).error(),
            Errc::kNoSuchObject);
}

TEST_F(SubnetClientTest, AnswersThatNobodyWaitsForAreDropped) {
  host::UserMadHeader header;
  const auto stray = request();
  fabric.do_in_thread([&] { (void)fabric.server.deliver(fabric.last_client, header, stray); });
  receive();
  EXPECT_FALSE(client.has_answers());
}

TEST_F(SubnetClientTest, ProcessesThatHaveEndedAreNamed) {
  fabric.do_in_thread(
      [&] { fabric.server.tell(fabric.last_client, {.slot = 7, .lid = 4, .lmc = 1}); });
  receive();
  const auto departure = client.poll_departure();
  ASSERT_TRUE(departure);
  EXPECT_EQ(departure->slot, 7U);
  EXPECT_EQ(departure->lid, 4);
  EXPECT_FALSE(client.poll_departure());
}

TEST_F(SubnetClientTest, RequestsHaveALimit) {
  fabric.swallows_datagrams = true;
  for (std::size_t count = 0; count < SubnetClient::kOutstandingMax; ++count) (void)post();
  EXPECT_EQ(client.post(now, port, request(), 1s).error(), Errc::kNoMemory);
}

}  // namespace
}  // namespace verbatim::connect
