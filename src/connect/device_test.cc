// SPDX-License-Identifier: Apache-2.0
#include "connect/device.h"

#include "connect/test_host.h"
#include "wire/cm/cm_message.h"
#include "wire/headers/mad.h"

namespace verbatim::connect {
namespace {

using namespace test;

TEST(Device, AddressesHavePlacesAndHolesHaveNone) {
  Network network;
  FakeHost host(network, 1, {gid(1), wire::Gid{}, gid(7)});
  EXPECT_EQ(host.device().index_of(gid(1)), 0U);
  EXPECT_EQ(host.device().index_of(gid(7)), 2U);
  EXPECT_FALSE(host.device().index_of(gid(3)));
  EXPECT_FALSE(host.device().index_of(wire::Gid{}));
}

TEST(Device, ARequestThatNamesNoAddressesIsRefused) {
  TwoHosts hosts;
  FakePair pair;
  const auto listener = hosts.listener(pair);
  const auto service =
      wire::service_id_of({.space = wire::PortSpace::kTcp, .port = TwoHosts::kPort});
  // Private data that does not begin as rdma_cm writes it: no such version.
  const std::array<std::byte, 40> stranger{std::byte{0xff}};
  const auto asked = hosts.client.device().with_agent([&](cm::Agent& agent, Instant now) {
    return agent.connect(now, {.address = {.local = gid(1), .remote = gid(2)},
                               .service_id = service,
                               .qpn = wire::QpNumber{0x11},
                               .private_data = stranger});
  });
  ASSERT_TRUE(asked);
  const cm::Datagram request = hosts.network.on_the_way.front();
  hosts.lose_all();
  hosts.server.services().receive(request);
  EXPECT_EQ(hosts.server.next_event(), nullptr);
  ASSERT_EQ(hosts.network.on_the_way.size(), 1U);
  const auto answer = wire::MadView::parse(hosts.network.on_the_way.front().octets);
  ASSERT_TRUE(answer);
  const auto message = wire::parse_cm_message(*answer);
  ASSERT_TRUE(message);
  EXPECT_TRUE(std::holds_alternative<wire::CmRej>(*message));
}

TEST(Device, TakingLeaveEndsItsConnections) {
  TwoHosts hosts;
  FakePair asks, answers;
  const auto listener = hosts.listener(answers);
  const auto client = hosts.resolved(asks);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_TRUE(server->reject(wire::RejectReason::kConsumer, {}));
  hosts.lose_all();
  {
    const std::lock_guard connections(connections_mutex());
    const std::lock_guard held(hosts.client.services());
    hosts.client.device().take_leave();
  }
  EXPECT_FALSE(hosts.network.on_the_way.empty());  // the peer is told
  hosts.deliver();
  EXPECT_EQ(hosts.client.next_event(), nullptr);
}

}  // namespace
}  // namespace verbatim::connect
