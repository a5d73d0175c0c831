// SPDX-License-Identifier: Apache-2.0
// What a program hears of the network below its device: neighbours that do not answer, addresses
// and interfaces that come and go.
#include "rdmacm_world.h"
#include "wired_network.h"

namespace verbatim::testing {
namespace {

constexpr std::uint16_t kPort = 7471;

TEST(InterfaceChanges, NobodyWaitsForANeighbourThatDoesNotAnswer) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* id = channel.create_id();
    sockaddr_in nobody = ipv4("10.9.0.9", kPort);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(nobody), 500), 0);
    EXPECT_FALSE(channel.has_event(0)) << "the call has waited for the answer";
    EXPECT_EQ(rdma_resolve_route(id, 500), -1);
    EXPECT_EQ(errno, EINVAL);
    const SeenEvent failed = channel.next();
    EXPECT_EQ(failed.kind, RDMA_CM_EVENT_ADDR_ERROR);
    EXPECT_EQ(failed.status, -ETIMEDOUT);
    destroy(id);
  });
}

TEST(InterfaceChanges, NeighboursOfBothFamiliesAreSought) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* id = channel.create_id();
    sockaddr_in6 nobody{};
    nobody.sin6_family = AF_INET6;
    nobody.sin6_port = htons(kPort);
    inet_pton(AF_INET6, "fd09::9", &nobody.sin6_addr);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&nobody), 200), 0);
    const SeenEvent failed = channel.next();
    EXPECT_EQ(failed.kind, RDMA_CM_EVENT_ADDR_ERROR);
    EXPECT_EQ(failed.status, -ETIMEDOUT);
    destroy(id);
  });
}

TEST(InterfaceChanges, AnIdMayGoWhileItsNeighbourIsSought) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* id = channel.create_id();
    sockaddr_in nobody = ipv4("10.9.0.9", kPort);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(nobody), 50), 0);
    destroy(id);
    EXPECT_FALSE(channel.has_event(200));
  });
}

TEST(InterfaceChanges, ASynchronousIdWaitsForTheOutcome) {
  in_a_wired_network([] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in nobody = ipv4("10.9.0.9", kPort);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(nobody), 200), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    destroy(id);
  });
}

}  // namespace
}  // namespace verbatim::testing
