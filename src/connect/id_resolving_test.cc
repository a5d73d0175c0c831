// SPDX-License-Identifier: Apache-2.0
#include "connect/test_host.h"

namespace verbatim::connect {
namespace {

using namespace test;

struct IdResolving : testing::Test {
  Network network;
  FakeHost host{network, 1, {gid(1), gid(7)}};
  FakePair pair;
};

TEST_F(IdResolving, ANeighbourIsWaitedForAndThenTheAddressIsResolved) {
  host.finds_neighbours = false;
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, endpoint(2, 5), 3s));
  EXPECT_EQ(id->state(), IdState::kResolving);
  EXPECT_EQ(host.sought.patience, Duration(3s));
  EXPECT_EQ(host.next_event(), nullptr);
  EXPECT_EQ(id->resolve_route().error(), Error::kInvalidArgument);
  host.find(Ok{});
  host.expect(EventKind::kAddressResolved);
  const Route ends = id->ends();
  EXPECT_EQ(ends.device, &host.device());
  EXPECT_EQ(ends.local, gid(1));
  EXPECT_EQ(ends.remote, gid(2));
  EXPECT_EQ(ends.source.port, 40000);
  EXPECT_EQ(ends.destination.port, 5);
}

TEST_F(IdResolving, ANeighbourThatDoesNotAnswerLeavesTheIdBound) {
  host.finds_neighbours = false;
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, endpoint(2, 5), 1s));
  host.find(Error::kTimedOut);
  EXPECT_EQ(host.expect(EventKind::kAddressFailed)->error, Error::kTimedOut);
  EXPECT_EQ(id->state(), IdState::kBound);
  ASSERT_TRUE(id->resolve_address({}, endpoint(3, 5), 1s));  // another one may be there
}

TEST_F(IdResolving, AnIdThatEndsIsNotSoughtForAnyMore) {
  host.finds_neighbours = false;
  auto id = host.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, endpoint(2, 5), 1s));
  id.reset();
  EXPECT_EQ(host.sought.id, nullptr);
}

TEST_F(IdResolving, WithoutARouteTheCallFailsAndSaysWhy) {
  host.no_route = Error::kNetworkUnreachable;
  const auto id = host.make_id(pair);
  EXPECT_EQ(id->resolve_address({}, endpoint(2, 5), 1s).error(), Error::kNetworkUnreachable);
  EXPECT_EQ(host.next_event(), nullptr);
}

TEST_F(IdResolving, ARouteThroughNoDeviceIsAnEvent) {
  host.routes_from = gid(50);
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, endpoint(2, 5), 1s));
  EXPECT_EQ(host.expect(EventKind::kAddressFailed)->error, Error::kNoDevice);
}

TEST_F(IdResolving, AnAddressOfADeviceNeedsNoNeighbour) {
  host.finds_neighbours = false;
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, endpoint(7, 5), 1s));
  host.expect(EventKind::kAddressResolved);
}

TEST_F(IdResolving, TheLoopbackAddressStandsForTheDevice) {
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, loopback(5), 1s));
  host.expect(EventKind::kAddressResolved);
  EXPECT_EQ(id->ends().device, &host.device());
  EXPECT_EQ(id->ends().local, gid(7));  // the last address of the family
  EXPECT_EQ(id->ends().remote, gid(7));
  EXPECT_TRUE(id->ends().destination.is_loopback());
}

TEST_F(IdResolving, TheAddressOfAllIsThisHost) {
  const auto id = host.make_id(pair);
  IpEndpoint to = IpEndpoint::any(true);
  to.port = 5;
  ASSERT_TRUE(id->resolve_address({}, to, 1s));
  host.expect(EventKind::kAddressResolved);
  EXPECT_TRUE(id->ends().destination.is_loopback());
}

TEST_F(IdResolving, FamiliesAreNotMixed) {
  const auto id = host.make_id(pair);
  ASSERT_TRUE(id->bind(endpoint(1, 5)));
  IpEndpoint to = IpEndpoint::any(false);
  to.address.octets[0] = 0xfd;
  EXPECT_EQ(id->resolve_address({}, to, 1s).error(), Error::kInvalidArgument);
}

TEST_F(IdResolving, AnAddressThatNoDeviceHasCannotBeBound) {
  const auto id = host.make_id(pair);
  EXPECT_EQ(id->bind(endpoint(50)).error(), Error::kAddressNotAvailable);
  EXPECT_EQ(id->bind(endpoint(99)).error(), Error::kNoDevice);  // another interface has it
  EXPECT_EQ(id->state(), IdState::kIdle);
  host.has_devices = false;
  EXPECT_EQ(id->bind(IpEndpoint::any(true)).error(), Error::kNoDevice);
}

TEST_F(IdResolving, ItsAddressIsWatchedFromTheBinding) {
  const auto id = host.make_id(pair);
  const auto everywhere = host.make_id(pair);
  ASSERT_TRUE(id->bind(endpoint(7, 5)));
  ASSERT_TRUE(everywhere->bind(IpEndpoint::any(true)));
  host.services().change_port({.lost = {gid(1)}});
  EXPECT_EQ(host.next_event(), nullptr);
  host.services().change_port({.lost = {gid(7)}});
  EXPECT_EQ(host.expect(EventKind::kAddressChanged)->id, id.get());
  host.services().change_port({.has_new_mac = true});
  host.expect(EventKind::kAddressChanged);
  host.services().change_port({.is_gone = true});
  host.expect(EventKind::kDeviceRemoved);
  EXPECT_EQ(host.next_event(), nullptr);
}

TEST_F(IdResolving, GroupsAreJoinedByDatagramIdsOfADevice) {
  IpEndpoint group = endpoint(1);
  group.address.octets[12] = 239;
  const auto stream = host.make_id(pair);
  ASSERT_TRUE(stream->bind(endpoint(1)));
  EXPECT_EQ(stream->join(group, nullptr).error(), Error::kInvalidArgument);
  const auto id = host.make_id(pair, wire::PortSpace::kUdp);
  EXPECT_EQ(id->join(group, nullptr).error(), Error::kInvalidArgument);  // has no device yet
  ASSERT_TRUE(id->bind(endpoint(1)));
  EXPECT_EQ(id->join(endpoint(2), nullptr).error(), Error::kInvalidArgument);
  int context = 0;
  ASSERT_TRUE(id->join(group, &context));
  EXPECT_TRUE(pair.groups.empty());  // until the program sees the event
  EXPECT_EQ(host.expect(EventKind::kJoined)->context, &context);
  EXPECT_EQ(pair.groups.size(), 1U);
  ASSERT_TRUE(id->leave(group));
  EXPECT_TRUE(pair.groups.empty());
  EXPECT_EQ(id->leave(group).error(), Error::kAddressNotAvailable);
  pair.refusal = Error::kNoMemory;
  ASSERT_TRUE(id->join(group, nullptr));
  EXPECT_EQ(host.expect(EventKind::kJoinFailed)->error, Error::kNoMemory);
}

TEST_F(IdResolving, AnIdThatEndsLeavesItsGroups) {
  IpEndpoint group = endpoint(1);
  group.address.octets[12] = 239;
  auto id = host.make_id(pair, wire::PortSpace::kUdp);
  ASSERT_TRUE(id->bind(endpoint(1)));
  ASSERT_TRUE(id->join(group, nullptr));
  host.expect(EventKind::kJoined);
  EXPECT_EQ(pair.groups.size(), 1U);
  id.reset();
  EXPECT_TRUE(pair.groups.empty());
}

}  // namespace
}  // namespace verbatim::connect
