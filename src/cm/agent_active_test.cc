// SPDX-License-Identifier: Apache-2.0
// The side that requests a connection.
#include <gtest/gtest.h>

#include <algorithm>

#include "cm/test_agent.h"
#include "wire/cm/addressee.h"

namespace verbatim::cm::test {
namespace {

using wire::CmDreq;
using wire::CmMra;
using wire::CmRej;
using wire::CmRep;
using wire::CmReq;
using wire::CmRtu;
using wire::RejectReason;

constexpr Duration kReqInterval = answer_time(kResponseTimeout, kPacketLifeTime);

TEST(AgentActive, ARequestSaysWhatTheUserAskedFor) {
  Bench bench;
  const std::array<std::byte, 3> hello{std::byte{1}, std::byte{2}, std::byte{3}};
  ConnectRequest request = Bench::connect_request();
  request.travel = {.flow_label = 0x54321, .traffic_class = 0x20, .hop_limit = 63};
  request.path_mtu = wire::PathMtu::k2048;
  request.rnr_retry_count = 3;
  request.uses_srq = true;
  request.private_data = hello;
  const auto id = bench.agent.connect(bench.now, request);
  ASSERT_TRUE(id);
  EXPECT_EQ(slot_of(*id), kSlot);

  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(bench.last_address, kAddress);
  EXPECT_EQ(req.local_comm_id, *id);
  EXPECT_EQ(req.service_id, kService);
  EXPECT_EQ(req.local_ca_guid, kOurGuid);
  EXPECT_EQ(req.local_qpn, kOurQp);
  EXPECT_EQ(req.starting_psn, wire::Psn(0x100));
  EXPECT_EQ(req.responder_resources, 4);
  EXPECT_EQ(req.initiator_depth, 3);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 3);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.remote_cm_response_timeout, 20);
  EXPECT_EQ(req.local_cm_response_timeout, 20);
  EXPECT_EQ(req.path_mtu, wire::PathMtu::k2048);
  EXPECT_TRUE(req.uses_srq);
  EXPECT_EQ(req.primary.local_gid, kAddress.local);
  EXPECT_EQ(req.primary.remote_gid, kAddress.remote);
  EXPECT_EQ(req.primary.local_lid, wire::Lid::kPermissive);
  EXPECT_EQ(req.primary.remote_lid, wire::Lid::kPermissive);
  EXPECT_EQ(req.primary.flow_label, 0x54321U);
  EXPECT_EQ(req.primary.traffic_class, 0x20);
  EXPECT_EQ(req.primary.hop_limit, 63);
  EXPECT_EQ(req.primary.local_ack_timeout, 17);
  EXPECT_FALSE(req.primary.subnet_local);
  EXPECT_FALSE(req.alternate.exists());
  EXPECT_TRUE(std::ranges::equal(std::span(req.private_data).first(3), hello));
  EXPECT_EQ(req.private_data[3], std::byte{0});
}

TEST(AgentActive, ARequestThatFitsNoMessageIsRefused) {
  Bench bench({.path_mtu_max = wire::PathMtu::k1024});
  const auto refused = [&](auto change) {
    ConnectRequest request = Bench::connect_request();
    change(request);
    const auto id = bench.agent.connect(bench.now, request);
    return !id && id.error() == Errc::kInvalidArgument && bench.sent_nothing();
  };
  static const std::array<std::byte, 93> too_long{};
  EXPECT_TRUE(refused([](auto& request) { request.private_data = too_long; }));
  EXPECT_TRUE(refused([](auto& request) { request.path_mtu = wire::PathMtu::k2048; }));
  EXPECT_TRUE(refused([](auto& request) { request.path_mtu = wire::PathMtu{0}; }));
  EXPECT_TRUE(refused([](auto& request) { request.qpn = wire::QpNumber{1U << 24}; }));
  EXPECT_TRUE(refused([](auto& request) { request.retry_count = 8; }));
  EXPECT_TRUE(refused([](auto& request) { request.rnr_retry_count = 8; }));
  EXPECT_TRUE(refused([](auto& request) { request.max_cm_retries = 16; }));
  EXPECT_TRUE(refused([](auto& request) { request.transport = wire::CmTransport::kRd; }));
  EXPECT_TRUE(refused([](auto& request) {
    request.address.remote = gid(0);
    request.address.remote.octets[12] = 224;
  }));
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentActive, IdsDifferAndDoNotComeBackSoon) {
  Bench bench;
  std::vector<wire::CommId> ids;
  for (int i = 0; i < 500; ++i) {
    ids.push_back(bench.to_req_sent());
    const auto req = bench.sent_one<CmReq>();
    EXPECT_EQ(bench.receive(CmRej{.remote_comm_id = req.local_comm_id}), Verdict::kHandled);
    ASSERT_TRUE(bench.agent.destroy(bench.now, ids.back()));
  }
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

TEST(AgentActive, ARequestIsRepeatedUntilTheRetriesAreOver) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto first = bench.sent_one<CmReq>();
  for (int copy = 0; copy < 15; ++copy) {
    bench.pass(kReqInterval - 1ns);
    EXPECT_TRUE(bench.sent_nothing()) << "too early";
    bench.pass(1ns);
    EXPECT_EQ(bench.sent_one<CmReq>(), first);
    EXPECT_TRUE(bench.no_event());
  }
  EXPECT_EQ(bench.agent.counters().retransmitted, 15U);
  bench.pass(kReqInterval);
  EXPECT_EQ(bench.one_event(AgentEventKind::kUnreachable).id, id);
  EXPECT_EQ(bench.agent.counters().timed_out, 1U);
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.reason, RejectReason::kTimeout);
  EXPECT_EQ(rej.local_comm_id, id);
  EXPECT_EQ(rej.remote_comm_id, wire::CommId{0});
  ASSERT_EQ(rej.info().size(), 8U) << "the GUID";
  EXPECT_EQ(rej.info()[6], std::byte{0x11});
}

TEST(AgentActive, AReplyAfterGivingUpIsRefused) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto req = bench.sent_one<CmReq>();
  while (bench.no_event()) bench.pass_to_deadline();
  (void)bench.sent();
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kDuplicate);
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.reason, RejectReason::kTimeout);
  EXPECT_EQ(rej.rejected, CmRej::Rejected::kRep);
  EXPECT_EQ(rej.local_comm_id, id);
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
}

TEST(AgentActive, AReplyGivesTheSettingsOfTheQueuePair) {
  Bench bench;
  const auto id = bench.to_req_sent();
  EXPECT_EQ(bench.agent.qp_settings(id).error(), Errc::kInvalidArgument) << "nothing agreed yet";
  const auto req = bench.sent_one<CmReq>();
  auto rep = Bench::peer_rep(req);
  rep.private_data[0] = std::byte{9};
  rep.uses_srq = true;
  rep.target_ack_delay = 18;
  EXPECT_EQ(bench.receive(rep), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kReply);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.private_data().size(), 196U);
  EXPECT_EQ(event.private_data()[0], std::byte{9});
  ASSERT_NE(event.as<CmRep>(), nullptr);

  const auto settings = bench.agent.qp_settings(id);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->address, kAddress);
  EXPECT_EQ(settings->remote_qpn, kPeerQp);
  EXPECT_EQ(settings->receive_psn, wire::Psn(0x100)) << "what we asked the peer to begin with";
  EXPECT_EQ(settings->send_psn, wire::Psn(0x200));
  EXPECT_EQ(settings->responder_resources, 1) << "the peer's depth";
  EXPECT_EQ(settings->initiator_depth, 2) << "the peer's resources";
  EXPECT_EQ(settings->retry_count, 7);
  EXPECT_EQ(settings->rnr_retry_count, 5);
  EXPECT_EQ(settings->ack_timeout, TimeCode{19}) << "18 and 16 + 1";
  EXPECT_TRUE(settings->peer_uses_srq);
  EXPECT_TRUE(bench.sent_nothing()) << "the queue pair is not ready";
}

TEST(AgentActive, TheReplyOfAnXrcTargetHasItsNumberElsewhere) {
  Bench bench;
  auto request = Bench::connect_request();
  request.transport = wire::CmTransport::kExtended;
  const auto id = bench.agent.connect(bench.now, request);
  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(req.extended_transport, wire::CmExtendedTransport::kXrc);
  auto rep = Bench::peer_rep(req);
  rep.local_qpn = {};
  rep.local_eecn = 0x4711;
  EXPECT_EQ(bench.receive(rep), Verdict::kHandled);
  EXPECT_EQ(bench.agent.qp_settings(*id)->remote_qpn, wire::QpNumber{0x4711});
}

TEST(AgentActive, EstablishingSendsTheRtuOnce) {
  Bench bench;
  const auto id = bench.to_req_sent();
  EXPECT_FALSE(bench.agent.establish(bench.now, id)) << "there is no reply yet";
  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kHandled);
  ASSERT_TRUE(bench.agent.establish(bench.now, id));
  const auto rtu = bench.sent_one<CmRtu>();
  EXPECT_EQ(rtu.transaction, req.transaction);
  EXPECT_EQ(rtu.local_comm_id, id);
  EXPECT_EQ(rtu.remote_comm_id, kPeerId);
  EXPECT_FALSE(bench.agent.establish(bench.now, id));
  EXPECT_FALSE(bench.pass_to_deadline() && !bench.sent_nothing()) << "no answer is due";
}

TEST(AgentActive, ADuplicateReplyGetsTheRtuAgain) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kHandled);
  const std::array<std::byte, 1> data{std::byte{7}};
  ASSERT_TRUE(bench.agent.establish(bench.now, id, data));
  const auto rtu = bench.sent_one<CmRtu>();
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmRtu>(), rtu);
  bench.one_event(AgentEventKind::kReply);
}

TEST(AgentActive, AReplyThatWaitsForTheUserIsMetWithPatience) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kHandled);
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kDuplicate);
  const auto mra = bench.sent_one<CmMra>();
  EXPECT_EQ(mra.received, CmMra::Received::kRep);
  EXPECT_EQ(mra.service_timeout, 24);
  EXPECT_EQ(mra.local_comm_id, id);
  EXPECT_EQ(mra.remote_comm_id, kPeerId);
  EXPECT_EQ(mra.transaction, req.transaction);
  bench.one_event(AgentEventKind::kReply);
}

TEST(AgentActive, AnMraGivesThePeerItsTime) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto req = bench.sent_one<CmReq>();
  CmMra mra = Bench::from_peer<CmMra>(id);
  mra.service_timeout = 24;
  EXPECT_EQ(bench.receive(mra), Verdict::kHandled);
  bench.one_event(AgentEventKind::kDelayed);
  bench.pass(duration_of(TimeCode{24}) + kReqInterval - 1ns);
  EXPECT_TRUE(bench.sent_nothing());
  bench.pass(1ns);
  EXPECT_EQ(bench.sent_one<CmReq>(), req);
  bench.pass(kReqInterval);
  EXPECT_EQ(bench.sent_one<CmReq>(), req) << "the delay was for one copy";
}

TEST(AgentActive, NoPeerCanDelayUsForEver) {
  Bench bench;
  const auto id = bench.to_req_sent();
  CmMra mra = Bench::from_peer<CmMra>(id);
  mra.service_timeout = 31;
  const Instant start = bench.now;
  for (int copies = 0; copies < 16; ++copies) {
    EXPECT_EQ(bench.receive(mra), Verdict::kHandled);
    bench.pass(1s);
    EXPECT_EQ(bench.receive(mra), Verdict::kDuplicate) << "one for each copy";
    bench.pass(Agent::kPatienceMax + kReqInterval - 1s);
  }
  EXPECT_EQ(bench.events().back().kind, AgentEventKind::kUnreachable);
  EXPECT_LE(bench.now - start, 16 * (Agent::kPatienceMax + kReqInterval));
}

TEST(AgentActive, AnMraForSomethingElseIsIgnored) {
  Bench bench;
  const auto id = bench.to_req_sent();
  CmMra mra = Bench::from_peer<CmMra>(id);
  mra.received = CmMra::Received::kRep;
  EXPECT_EQ(bench.receive(mra), Verdict::kWrongState);
  mra.received = CmMra::Received::kLap;
  EXPECT_EQ(bench.receive(mra), Verdict::kWrongState);
  EXPECT_TRUE(bench.no_event());
}

TEST(AgentActive, ARefusalEndsTheRequest) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto req = bench.sent_one<CmReq>();
  CmRej rej{.transaction = req.transaction,
            .remote_comm_id = id,
            .reason = RejectReason::kInvalidServiceId};
  rej.private_data[0] = std::byte{5};
  EXPECT_EQ(bench.receive(rej), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kRejected);
  EXPECT_EQ(event.reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(event.private_data()[0], std::byte{5});
  EXPECT_EQ(bench.receive(rej), Verdict::kWrongState) << "once";
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kWrongState);
  bench.let_all_expire();
  EXPECT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentActive, ARefusalForAStaleConnectionIsFollowedByTimewait) {
  Bench bench;
  const auto id = bench.to_req_sent();
  EXPECT_EQ(bench.receive(CmRej{.remote_comm_id = id, .reason = RejectReason::kStaleConnection}),
            Verdict::kHandled);
  EXPECT_EQ(bench.one_event(AgentEventKind::kRejected).reason, RejectReason::kStaleConnection);
  bench.pass(duration_of(TimeCode{17}));
  EXPECT_EQ(bench.one_event(AgentEventKind::kTimewaitExit).id, id);
}

TEST(AgentActive, TheUserMayRefuseAReply) {
  Bench bench;
  const auto id = bench.to_req_sent();
  const auto req = bench.sent_one<CmReq>();
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kHandled);
  ASSERT_TRUE(bench.agent.reject(bench.now, id, {}));
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.rejected, CmRej::Rejected::kRep);
  EXPECT_EQ(rej.reason, RejectReason::kConsumer);
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  EXPECT_EQ(bench.receive(Bench::peer_rep(req)), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmRej>(), rej) << "a duplicate gets the same answer";
}

TEST(AgentActive, AReplyFromAQueuePairThatIsConnectedIsStale) {
  Bench bench;
  const auto old = bench.to_active_established();
  const auto id = bench.to_req_sent();
  auto rep = Bench::peer_rep(bench.sent_one<CmReq>());
  rep.local_comm_id = wire::CommId{0x1};
  EXPECT_EQ(bench.receive(rep), Verdict::kStaleConnection);
  const auto event = bench.one_event(AgentEventKind::kRejected);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.reason, RejectReason::kStaleConnection);
  const auto sent = bench.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(std::get<CmRej>(sent[0]).reason, RejectReason::kStaleConnection);
  EXPECT_EQ(std::get<CmRej>(sent[0]).rejected, CmRej::Rejected::kRep);
  EXPECT_EQ(std::get<wire::CmLap>(sent[1]).local_comm_id, old) << "the peer is asked about it";
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmApr>(old)), Verdict::kHandled);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmApr>(old)), Verdict::kWrongState);
  EXPECT_TRUE(bench.agent.qp_settings(old).ok()) << "the old one stands";
}

TEST(AgentActive, DestroyingARequestTellsThePeer) {
  Bench bench;
  const auto id = bench.to_req_sent();
  (void)bench.sent();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.sent_one<CmRej>().reason, RejectReason::kTimeout);
  EXPECT_FALSE(bench.agent.destroy(bench.now, id)) << "it is gone";
  EXPECT_EQ(bench.agent.establish(bench.now, id).error(), Errc::kNoSuchObject);
  bench.let_all_expire();
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentActive, DestroyingTakesEventsAlong) {
  Bench bench;
  const auto id = bench.to_req_sent();
  EXPECT_EQ(bench.receive(Bench::peer_rep(bench.sent_one<CmReq>())), Verdict::kHandled);
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_TRUE(bench.no_event());
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.reason, RejectReason::kConsumer);
  EXPECT_EQ(rej.rejected, CmRej::Rejected::kRep);
}

}  // namespace
}  // namespace verbatim::cm::test
