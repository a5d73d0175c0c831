// SPDX-License-Identifier: Apache-2.0
// Connections in a subnet of InfiniBand: messages have LIDs and no GIDs.
#include <gtest/gtest.h>

#include "cm/test_agent.h"

namespace verbatim::cm::test {
namespace {

using wire::CmRej;
using wire::CmRep;
using wire::CmReq;
using wire::RejectReason;

constexpr wire::Lid kOurLid{4};
constexpr wire::Lid kPeerLid{6};
constexpr wire::ServiceLevel kLevel{3};

const Address kNative{.local = gid(1),
                      .remote = gid(2),
                      .route = {.source = kOurLid, .destination = kPeerLid, .level = kLevel}};
/// As a message arrives: the GID of the sender is not in it.
const Address kArriving{.local = gid(1), .route = kNative.route};

CmReq native_req() {
  auto req = Bench::peer_req();
  req.primary.local_lid = kPeerLid;
  req.primary.remote_lid = kOurLid;
  req.primary.level = kLevel;
  req.primary.packet_rate = 16;
  req.primary.hop_limit = 0;
  req.primary.subnet_local = true;
  req.pkey = wire::PKey{0x8001};
  return req;
}

TEST(AgentInASubnet, ARequestHasThePathOfItsAddress) {
  Bench bench;
  ConnectRequest request = Bench::connect_request();
  request.address = kNative;
  request.travel = {
      .hop_limit = 0, .service_level = 3, .packet_rate = 16, .pkey = wire::PKey{0x8001}};
  ASSERT_TRUE(bench.agent.connect(bench.now, request));
  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(bench.last_address.route, kNative.route);
  EXPECT_EQ(req.primary.local_lid, kOurLid);
  EXPECT_EQ(req.primary.remote_lid, kPeerLid);
  EXPECT_EQ(req.primary.level, kLevel);
  EXPECT_EQ(req.primary.packet_rate, 16);
  EXPECT_TRUE(req.primary.subnet_local);
  EXPECT_EQ(req.pkey, wire::PKey{0x8001});
}

TEST(AgentInASubnet, TheReplyOfThePeerIsKnownByItsLid) {
  Bench bench;
  ConnectRequest request = Bench::connect_request();
  request.address = kNative;
  const auto id = bench.agent.connect(bench.now, request);
  ASSERT_TRUE(id);
  const auto req = bench.sent_one<CmReq>();
  const CmRep rep{.transaction = req.transaction,
                  .local_comm_id = kPeerId,
                  .remote_comm_id = *id,
                  .local_qpn = kPeerQp,
                  .local_ca_guid = kPeerGuid};
  Address other = kArriving;
  other.route.destination = wire::Lid{7};
  EXPECT_EQ(bench.receive(rep, other), Verdict::kWrongPeer);
  EXPECT_EQ(bench.receive(rep, kArriving), Verdict::kHandled);
  const auto settings = bench.agent.qp_settings(*id);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->address.remote, gid(2));
  EXPECT_EQ(settings->address.route, kNative.route);
}

TEST(AgentInASubnet, ARequestSaysHowToReachItsSender) {
  Bench bench;
  (void)bench.listen();
  EXPECT_EQ(bench.receive(native_req(), kArriving), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kConnectRequest);
  EXPECT_EQ(event.address.remote, gid(2));
  const auto settings = bench.agent.qp_settings(event.id);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->address.local, gid(1));
  EXPECT_EQ(settings->address.remote, gid(2));
  EXPECT_EQ(settings->address.route, kNative.route);
  EXPECT_EQ(settings->travel.packet_rate, 16);
  EXPECT_EQ(settings->travel.hop_limit, 0);
  EXPECT_EQ(settings->travel.pkey, wire::PKey{0x8001});
  ASSERT_TRUE(bench.agent.accept(bench.now, event.id, {.qpn = kOurQp}));
  (void)bench.sent_one<CmRep>();
  EXPECT_EQ(bench.last_address.route, kNative.route);
}

TEST(AgentInASubnet, TheEndOfThePeersProcessDisconnects) {
  Bench bench;
  (void)bench.listen();
  EXPECT_EQ(bench.receive(native_req(), kArriving), Verdict::kHandled);
  const auto id = bench.one_event(AgentEventKind::kConnectRequest).id;
  ASSERT_TRUE(bench.agent.handle_peer_end(bench.now, id));
  EXPECT_TRUE(bench.no_event()) << "the request is not answered yet";
  ASSERT_TRUE(bench.agent.accept(bench.now, id, {.qpn = kOurQp}));
  (void)bench.sent();
  ASSERT_TRUE(bench.agent.handle_peer_end(bench.now, id));
  EXPECT_TRUE(bench.one_event(AgentEventKind::kDisconnected).message);
  ASSERT_TRUE(bench.agent.handle_peer_end(bench.now, id));
  EXPECT_TRUE(bench.no_event());
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentInASubnet, ARepeatedRequestIsKnownByItsLid) {
  Bench bench;
  (void)bench.listen();
  EXPECT_EQ(bench.receive(native_req(), kArriving), Verdict::kHandled);
  EXPECT_EQ(bench.receive(native_req(), kArriving), Verdict::kDuplicate);
}

TEST(AgentInASubnet, ARequestForAnotherLidIsRefused) {
  Bench bench;
  (void)bench.listen();
  auto req = native_req();
  req.primary.remote_lid = wire::Lid{9};
  EXPECT_EQ(bench.receive(req, kArriving), Verdict::kInvalidRequest);
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.reason, RejectReason::kPrimaryLid);
  ASSERT_EQ(rej.info().size(), 2U);
  EXPECT_EQ(rej.info()[1], std::byte{4});
}

TEST(AgentInASubnet, LidsInARequestOverRoceMeanNothing) {
  Bench bench;
  (void)bench.listen();
  EXPECT_EQ(bench.receive(native_req()), Verdict::kHandled);
  const auto settings =
      bench.agent.qp_settings(bench.one_event(AgentEventKind::kConnectRequest).id);
  ASSERT_TRUE(settings);
  EXPECT_FALSE(settings->address.route.exists());
}

}  // namespace
}  // namespace verbatim::cm::test
