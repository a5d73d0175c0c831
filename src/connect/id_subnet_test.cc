// SPDX-License-Identifier: Apache-2.0
// Ids in a subnet of InfiniBand.
#include <gtest/gtest.h>

#include "connect/test_host.h"
#include "wire/headers/test_octets.h"
#include "wire/management/multicast_record.h"
#include "wire/management/path_record.h"
#include "wire/management/sa_message.h"

namespace verbatim::connect {
namespace {

using namespace test;
using wire::MadMethod;
using wire::MulticastRecord;
using wire::PathRecord;

constexpr std::uint32_t kNetwork = 0x7f40'0000;
constexpr std::uint16_t kPort = 7471;
constexpr wire::PKey kPartition{0x8001};

device::FabricPort fabric_port(std::uint16_t number) {
  return {.node = "h",
          .address = kNetwork + number,
          .lid = wire::Lid{static_cast<std::uint16_t>(number * 2)},
          .sm_lid = wire::Lid{1},
          .pkeys = {wire::PKey::kDefault, kPartition}};
}
wire::Gid native_gid(std::uint8_t number) {
  wire::Gid made;
  made.octets[0] = 0xfe;
  made.octets[1] = 0x80;
  made.octets[15] = number;
  return made;
}
IpEndpoint at(std::uint32_t address, std::uint16_t port = 0) {
  IpEndpoint made = IpEndpoint::any(true);
  made.set_ipv4(address);
  made.port = port;
  return made;
}
IpEndpoint ib(const wire::Gid& gid, std::uint64_t service, wire::PKey pkey = wire::PKey::kDefault) {
  return {.address = gid,
          .port = static_cast<std::uint16_t>(service),
          .is_ipv4 = false,
          .ib = IbPart{.pkey = pkey, .service = service, .service_mask = ~std::uint64_t{0}}};
}

/// Nodes 1 and 2 of a fabric, and a subnet administration that the test plays.
struct IdInASubnet : testing::Test {
  Network network;
  FakeHost client{network, 1, {native_gid(1)}, fabric_port(1)};
  FakeHost server{network, 2, {native_gid(2)}, fabric_port(2)};
  FakePair pair;

  IdInASubnet() { client.services().nodes[kNetwork + 2] = native_gid(2); }

  void deliver() {
    while (!network.on_the_way.empty()) {
      const cm::Datagram next = network.on_the_way.front();
      network.on_the_way.pop_front();
      for (FakeHost* host : {&client, &server}) {
        if (host->services().has_lid(next.address.route.destination)) {
          host->services().receive(next);
        }
      }
    }
  }
  /// The oldest question that was not answered, which must be one with this method and record.
  template <typename Record>
  Record asked(MadMethod method) {
    auto& questions = client.services().asked;
    EXPECT_FALSE(questions.empty());
    if (questions.empty()) return {};
    const auto mad = wire::MadView::parse(questions.front().octets);
    EXPECT_EQ(mad->method(), method);
    const auto record = wire::record_in<Record>(*mad);
    EXPECT_TRUE(record);
    return record.value_or(Record{});
  }
  template <typename Record>
  void answer(const Record& record, std::uint16_t status = 0) {
    SubnetAnswer given{.token = take_question(), .is_answered = true};
    wire::SaMessage{.method = MadMethod::kGetResp, .status = status}.emit(record, given.octets);
    client.services().answer(given);
  }
  void stay_silent() { client.services().answer({.token = take_question()}); }
  SubnetToken take_question() {
    const SubnetToken token = client.services().asked.front().token;
    client.services().asked.pop_front();
    return token;
  }

  static PathRecord path() {
    return {.destination_gid = native_gid(2),
            .source_gid = native_gid(1),
            .destination = wire::Lid{4},
            .source = wire::Lid{2},
            .is_reversible = true,
            .pkey = kPartition,
            .level = wire::ServiceLevel{3},
            .mtu = wire::PathMtu::k512,
            .rate = 16,
            .life_time = 14};
  }
  std::unique_ptr<Id> with_address(wire::PortSpace space = wire::PortSpace::kTcp) {
    auto id = client.make_id(pair, space);
    EXPECT_TRUE(id->resolve_address({}, at(kNetwork + 2, kPort), 1s));
    client.expect(EventKind::kAddressResolved);
    return id;
  }
  std::unique_ptr<Id> with_route(wire::PortSpace space = wire::PortSpace::kTcp) {
    auto id = with_address(space);
    EXPECT_TRUE(id->resolve_route(1s));
    answer(path());
    client.expect(EventKind::kRouteResolved);
    return id;
  }
};

TEST_F(IdInASubnet, AnAddressNamesANodeAndBecomesItsGid) {
  const auto id = with_address();
  const Route ends = id->ends();
  EXPECT_EQ(ends.local, native_gid(1));
  EXPECT_EQ(ends.remote, native_gid(2));
  EXPECT_EQ(ends.source.ipv4(), kNetwork + 1);
  EXPECT_EQ(ends.source.port, 40000);
}

TEST_F(IdInASubnet, AnAddressThatNoNodeHasIsUnreachable) {
  for (const std::uint32_t address : {kNetwork + 9, 0x7f7f0001U, 0xc0000201U}) {
    const auto id = client.make_id(pair);
    ASSERT_TRUE(id->resolve_address({}, at(address), 1s));
    EXPECT_EQ(client.expect(EventKind::kAddressFailed)->error, Error::kHostUnreachable);
    EXPECT_EQ(id->state(), IdState::kBound);
  }
}

TEST_F(IdInASubnet, LoopbackAndTheOwnAddressAreTheNodeItself) {
  // 10.0.0.99 is an address of an interface of the machine.
  for (const IpEndpoint& to : {at(0x7f000001), at(kNetwork + 1), at(0x0a000063), at(0)}) {
    const auto id = client.make_id(pair);
    ASSERT_TRUE(id->resolve_address({}, to, 1s));
    client.expect(EventKind::kAddressResolved);
    EXPECT_EQ(id->ends().remote, native_gid(1));
  }
}

TEST_F(IdInASubnet, AnIdBindsToAddressesOfItsNodeOnly) {
  EXPECT_TRUE(client.make_id(pair)->bind(at(kNetwork + 1, 1)));
  EXPECT_TRUE(client.make_id(pair)->bind(at(0x7f000001, 2)));
  EXPECT_TRUE(client.make_id(pair)->bind(ib(native_gid(1), 0x0106'0003)));
  for (const IpEndpoint& other :
       {at(kNetwork + 2, 1), at(0xc0000201, 1), ib(native_gid(2), 0x0106'0003)}) {
    EXPECT_EQ(client.make_id(pair)->bind(other).error(), Error::kAddressNotAvailable);
  }
}

TEST_F(IdInASubnet, ARouteIsWhatTheAdministrationAnswers) {
  const auto id = with_address();
  id->options().traffic_class = 0x20;
  ASSERT_TRUE(id->resolve_route(3s));
  EXPECT_EQ(client.services().asked.front().patience, Duration(3s));
  EXPECT_EQ(client.next_event(), nullptr);
  EXPECT_EQ(id->resolve_route().error(), Error::kInvalidArgument);
  EXPECT_EQ(id->connect(TwoHosts::parameters()).error(), Error::kInvalidArgument);
  const auto query = asked<PathRecord>(MadMethod::kGet);
  EXPECT_EQ(query.source_gid, native_gid(1));
  EXPECT_EQ(query.destination_gid, native_gid(2));
  EXPECT_EQ(query.pkey, wire::PKey::kDefault);
  EXPECT_EQ(query.service, wire::ServiceId{0x0106'0000 + kPort});
  EXPECT_EQ(query.qos_class, 0x20);
  EXPECT_EQ(query.path_count, 1);
  EXPECT_TRUE(query.is_reversible);
  answer(path());
  client.expect(EventKind::kRouteResolved);
  EXPECT_EQ(id->ends().path, path());
}

TEST_F(IdInASubnet, WithoutAnAnswerThereIsNoRoute) {
  const auto id = with_address();
  ASSERT_TRUE(id->resolve_route(1s));
  stay_silent();
  EXPECT_EQ(client.expect(EventKind::kRouteFailed)->error, Error::kTimedOut);
  ASSERT_TRUE(id->resolve_route(1s));  // a manager may be there now
  answer(path(), 0x0300);
  EXPECT_EQ(client.expect(EventKind::kRouteFailed)->error, Error::kInvalidArgument);
  ASSERT_TRUE(id->resolve_route(1s));
  answer(PathRecord{});
  EXPECT_EQ(client.expect(EventKind::kRouteFailed)->error, Error::kInvalidArgument);
  ASSERT_TRUE(id->resolve_route(1s));
  answer(PathRecord{}, 0x000c);  // of a port without a subnet manager
  EXPECT_EQ(client.expect(EventKind::kRouteFailed)->error, Error::kTimedOut);
  client.services().subnet_refusal = Error::kNoDevice;
  ASSERT_TRUE(id->resolve_route(1s));
  EXPECT_EQ(client.expect(EventKind::kRouteFailed)->error, Error::kTimedOut);
}

TEST_F(IdInASubnet, AnIdThatHasEndedGetsNoAnswer) {
  auto id = with_address();
  ASSERT_TRUE(id->resolve_route(1s));
  id.reset();
  answer(path());
  EXPECT_EQ(client.next_event(), nullptr);
}

TEST_F(IdInASubnet, APathOfTheProgramIsTaken) {
  const auto id = with_address();
  ASSERT_TRUE(id->set_path(path()));
  client.expect(EventKind::kRouteResolved);
  EXPECT_EQ(id->ends().path, path());
  EXPECT_TRUE(client.services().asked.empty());
}

TEST_F(IdInASubnet, AConnectionFollowsThePath) {
  FakePair servers_pair;
  auto listener = server.make_id(servers_pair);
  ASSERT_TRUE(listener->bind(at(0, kPort)));
  ASSERT_TRUE(listener->listen(8));
  const auto id = with_route();
  ASSERT_TRUE(id->connect(TwoHosts::parameters()));
  deliver();
  auto request = server.expect(EventKind::kRequest);
  ASSERT_NE(request, nullptr);
  const auto* req = request->cause->as<wire::CmReq>();
  ASSERT_NE(req, nullptr);
  EXPECT_EQ(req->primary.local_lid, wire::Lid{2});
  EXPECT_EQ(req->primary.remote_lid, wire::Lid{4});
  EXPECT_EQ(req->primary.level, wire::ServiceLevel{3});
  EXPECT_EQ(req->primary.packet_rate, 16);
  EXPECT_TRUE(req->primary.subnet_local);
  EXPECT_EQ(req->pkey, kPartition);
  EXPECT_EQ(req->path_mtu, wire::PathMtu::k512);
  EXPECT_EQ(req->primary.local_ack_timeout, 16);  // 2^15 both ways, and a delay of 2^15
  const auto accepted = std::move(request->made);
  accepted->adopt(&server, servers_pair);
  const Route ends = accepted->ends();
  EXPECT_EQ(ends.source.ipv4(), kNetwork + 2);
  EXPECT_EQ(ends.destination.ipv4(), kNetwork + 1);
  EXPECT_EQ(ends.remote, native_gid(1));
  ASSERT_TRUE(accepted->accept(TwoHosts::parameters()));
  deliver();
  client.expect(EventKind::kEstablished);
  deliver();
  server.expect(EventKind::kEstablished);
  const auto settings = accepted->terms().settings;
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->address.route,
            (wire::LocalRoute{wire::Lid{4}, wire::Lid{2}, wire::ServiceLevel{3}}));
}

TEST_F(IdInASubnet, GidsConnectWithoutAHeaderOfIpAddresses) {
  FakePair servers_pair;
  constexpr std::uint64_t kService = 0x0106'1d2f;
  auto listener = server.make_id(servers_pair);
  ASSERT_TRUE(listener->bind(ib({}, kService)));
  ASSERT_TRUE(listener->listen(8));
  const auto id = client.make_id(pair);
  ASSERT_TRUE(id->resolve_address({}, ib(native_gid(2), kService, kPartition), 1s));
  client.expect(EventKind::kAddressResolved);
  ASSERT_TRUE(id->resolve_route(1s));
  const auto query = asked<PathRecord>(MadMethod::kGet);
  EXPECT_EQ(query.service, wire::ServiceId{kService});
  EXPECT_EQ(query.pkey, kPartition);
  answer(path());
  client.expect(EventKind::kRouteResolved);
  const std::array<std::byte, 2> hello{std::byte{7}, std::byte{8}};
  ASSERT_TRUE(id->connect(TwoHosts::parameters(hello)));
  deliver();
  const auto request = server.expect(EventKind::kRequest);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->cause->private_data()[0], std::byte{7});
  EXPECT_EQ(request->made->ends().destination.address, native_gid(1));
  EXPECT_EQ(request->made->ends().source.ib->service, kService);
}

TEST_F(IdInASubnet, AServiceOfAnotherPortSpaceIsRefused) {
  const auto id = client.make_id(pair, wire::PortSpace::kUdp);
  EXPECT_EQ(id->bind(ib(native_gid(1), 0x0106'0003)).error(), Error::kProtocol);
  const auto any = client.make_id(pair, wire::PortSpace::kIb);
  EXPECT_TRUE(any->bind(ib(native_gid(1), 0x0106'0003)));
}

// ---- Groups ----

const IpEndpoint kGroup = at(0xef010203);

wire::Gid group_gid() { return wire::test::gid("ff124001ffff0000000000000f010203"); }

TEST_F(IdInASubnet, AGroupIsJoinedWithTheParametersOfTheBroadcastGroup) {
  const auto id = with_address(wire::PortSpace::kUdp);
  int context = 0;
  ASSERT_TRUE(id->join(kGroup, &context));
  EXPECT_EQ(asked<MulticastRecord>(MadMethod::kGet).group, broadcast_gid_of(wire::PKey::kDefault));
  answer(MulticastRecord{.level = wire::ServiceLevel{5}});
  const auto join = asked<MulticastRecord>(MadMethod::kSet);
  EXPECT_EQ(join.group, group_gid());
  EXPECT_EQ(join.port_gid, native_gid(1));
  EXPECT_EQ(join.qkey, kDatagramQKey);
  EXPECT_EQ(join.level, wire::ServiceLevel{5});
  EXPECT_EQ(join.join_state, wire::JoinState::kFullMember);
  EXPECT_EQ(client.next_event(), nullptr);
  MulticastRecord given = join;
  given.lid = wire::Lid{0xc003};
  answer(given);
  const auto event = client.expect(EventKind::kJoined);
  EXPECT_EQ(event->record, given);
  EXPECT_EQ(event->context, &context);
  EXPECT_TRUE(pair.groups.contains(group_gid().octets));
  ASSERT_TRUE(id->leave(kGroup));
  EXPECT_FALSE(pair.groups.contains(group_gid().octets));
  EXPECT_EQ(asked<MulticastRecord>(MadMethod::kDelete).group, group_gid());
  EXPECT_EQ(id->leave(kGroup).error(), Error::kAddressNotAvailable);
}

TEST_F(IdInASubnet, ARefusedJoinIsAnEvent) {
  const auto id = with_address(wire::PortSpace::kUdp);
  ASSERT_TRUE(id->join(kGroup, nullptr));
  answer(MulticastRecord{}, 0x0300);  // there is no broadcast group, which datagrams do not need
  answer(MulticastRecord{}, 0x0700);
  EXPECT_EQ(client.expect(EventKind::kJoinFailed)->error, Error::kInvalidArgument);
  ASSERT_TRUE(id->join(kGroup, nullptr));
  stay_silent();
  EXPECT_EQ(client.expect(EventKind::kJoinFailed)->error, Error::kTimedOut);
}

TEST_F(IdInASubnet, AnIdThatEndsLeavesWhatItHasJoinedOrIsJoining) {
  auto id = with_address(wire::PortSpace::kUdp);
  ASSERT_TRUE(id->join(kGroup, nullptr));
  answer(MulticastRecord{});
  const auto join = asked<MulticastRecord>(MadMethod::kSet);
  (void)take_question();
  id.reset();
  EXPECT_EQ(asked<MulticastRecord>(MadMethod::kDelete).group, join.group);
}

TEST_F(IdInASubnet, AnIpoibIdNeedsTheBroadcastGroup) {
  const auto id = with_address(wire::PortSpace::kIpoib);
  ASSERT_TRUE(id->join(kGroup, nullptr));
  answer(MulticastRecord{}, 0x0300);
  EXPECT_EQ(client.expect(EventKind::kJoinFailed)->error, Error::kAddressNotAvailable);
}

TEST_F(IdInASubnet, ANewSubnetManagerHasForgottenTheGroups) {
  const auto id = with_address(wire::PortSpace::kUdp);
  ASSERT_TRUE(id->join(kGroup, nullptr));
  answer(MulticastRecord{});
  answer(asked<MulticastRecord>(MadMethod::kSet));
  client.expect(EventKind::kJoined);
  client.services().change_port({.wants_reregistration = true});
  EXPECT_EQ(client.expect(EventKind::kJoinFailed)->error, Error::kNetworkReset);
  ASSERT_TRUE(id->join(kGroup, nullptr));
}

TEST_F(IdInASubnet, OneListensWhereTheSubnetMovesTheNode) {
  auto listener = server.make_id(pair);
  ASSERT_TRUE(listener->bind(at(0, kPort)));
  ASSERT_TRUE(listener->listen(8));
  EXPECT_EQ(server.services().claims.size(), 1U);
  server.services().change_port({.gained = {native_gid(7)}, .lost = {native_gid(2)}});
  ASSERT_EQ(server.services().claims.size(), 1U);
  EXPECT_EQ(server.services().claims.begin()->first, native_gid(7).octets);
}

}  // namespace
}  // namespace verbatim::connect
