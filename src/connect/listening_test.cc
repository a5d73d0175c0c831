// SPDX-License-Identifier: Apache-2.0
#include "connect/listening.h"

#include "connect/test_host.h"

namespace verbatim::connect {
namespace {

using namespace test;

struct ListeningTest : testing::Test {
  Network network;
  FakeHost host{network, 1, {gid(1), gid(7)}};
  FakePair pair;
};

TEST_F(ListeningTest, APortIsHeldAtOneAddressAndGivenBack) {
  auto id = host.make_id(pair);
  ASSERT_TRUE(id->bind(endpoint(1, 5)));
  EXPECT_EQ(host.services().claims.size(), 1U);
  const auto second = host.make_id(pair);
  EXPECT_EQ(second->bind(endpoint(1, 5)).error(), Error::kAddressInUse);
  const auto elsewhere = host.make_id(pair);
  EXPECT_TRUE(elsewhere->bind(endpoint(7, 5)));
  id.reset();
  EXPECT_TRUE(second->bind(endpoint(1, 5)));
}

TEST_F(ListeningTest, ASharedPortIsHeldByTheOneThatListens) {
  const auto first = host.make_id(pair);
  const auto second = host.make_id(pair);
  first->options().reuses_address = second->options().reuses_address = true;
  ASSERT_TRUE(first->bind(endpoint(1, 5)));
  ASSERT_TRUE(second->bind(endpoint(1, 5)));
  EXPECT_TRUE(host.services().claims.empty());
  ASSERT_TRUE(first->listen(1));
  EXPECT_EQ(second->listen(1).error(), Error::kAddressInUse);
}

TEST_F(ListeningTest, APortWithoutANumberIsGivenBack) {
  auto id = host.make_id(pair);
  ASSERT_TRUE(id->bind(endpoint(1)));
  EXPECT_EQ(id->ends().source.port, 40000);
  EXPECT_EQ(host.given_ports, 1);
  id.reset();
  EXPECT_EQ(host.given_ports, 0);
}

TEST_F(ListeningTest, TheAddressOfAllIsAllAddresses) {
  const auto id = host.make_id(pair);
  IpEndpoint any = IpEndpoint::any(true);
  any.port = 5;
  ASSERT_TRUE(id->bind(any));
  EXPECT_EQ(host.services().claims.size(), 2U);
  ASSERT_TRUE(id->listen(1));
  EXPECT_EQ(host.services().attracted, 2);
  EXPECT_EQ(id->ends().device, nullptr);
}

TEST_F(ListeningTest, AnAddressThatIsTakenLeavesNoneHeld) {
  host.services().refuses_claims_at = gid(7);
  const auto id = host.make_id(pair);
  IpEndpoint any = IpEndpoint::any(true);
  any.port = 5;
  EXPECT_EQ(id->bind(any).error(), Error::kAddressInUse);
  EXPECT_TRUE(host.services().claims.empty());
  EXPECT_EQ(id->state(), IdState::kIdle);
}

TEST_F(ListeningTest, AnIdThatWasNotBoundListensEverywhere) {
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->listen(0));
  EXPECT_EQ(id->state(), IdState::kListening);
  EXPECT_EQ(host.services().attracted, 2);
  EXPECT_EQ(id->ends().source.port, 40000);
}

TEST_F(ListeningTest, ListenersEverywhereFollowTheAddresses) {
  const auto everywhere = host.make_id(pair);
  const auto fixed = host.make_id(pair);
  IpEndpoint any = IpEndpoint::any(true);
  any.port = 5;
  ASSERT_TRUE(everywhere->bind(any));
  ASSERT_TRUE(everywhere->listen(1));
  ASSERT_TRUE(fixed->bind(endpoint(1, 6)));
  ASSERT_TRUE(fixed->listen(1));
  EXPECT_EQ(host.services().claims.size(), 3U);
  host.services().change_port({.gained = {gid(8)}, .lost = {gid(7)}});
  Listening::follow_addresses();
  const auto service = wire::service_id_of({.space = wire::PortSpace::kTcp, .port = 5});
  EXPECT_EQ(host.services().claims.size(), 3U);
  EXPECT_TRUE(host.services().claims.contains({gid(8).octets, service}));
  EXPECT_FALSE(host.services().claims.contains({gid(7).octets, service}));
  const std::lock_guard lock(host.services());
  EXPECT_TRUE(host.services().agent().listens_for(service, gid(8)));
  EXPECT_FALSE(host.services().agent().listens_for(service, gid(7)));
}

TEST_F(ListeningTest, AnAddressWhereThePortIsTakenIsLeftOut) {
  const auto everywhere = host.make_id(pair);
  IpEndpoint any = IpEndpoint::any(true);
  any.port = 5;
  ASSERT_TRUE(everywhere->bind(any));
  ASSERT_TRUE(everywhere->listen(1));
  host.services().refuses_claims_at = gid(8);
  host.services().change_port({.gained = {gid(8)}});
  Listening::follow_addresses();
  EXPECT_EQ(host.services().attracted, 2);
  host.services().refuses_claims_at.reset();
  Listening::follow_addresses();  // with the next change it is tried again
  EXPECT_EQ(host.services().attracted, 3);
}

}  // namespace
}  // namespace verbatim::connect
