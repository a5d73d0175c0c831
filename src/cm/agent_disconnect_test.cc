// SPDX-License-Identifier: Apache-2.0
// How connections end.
#include <gtest/gtest.h>

#include "cm/test_agent.h"

namespace verbatim::cm::test {
namespace {

using wire::CmDrep;
using wire::CmDreq;
using wire::CmRej;
using wire::CmReq;
using wire::CmRtu;
using wire::RejectReason;

constexpr Duration kTimewait = duration_of(TimeCode{17});

TEST(AgentDisconnect, DisconnectingAsksThePeerAndThenWaits) {
  Bench bench;
  const auto id = bench.to_active_established();
  const std::array<std::byte, 1> data{std::byte{6}};
  ASSERT_TRUE(bench.agent.disconnect(bench.now, id, data));
  const auto dreq = bench.sent_one<CmDreq>();
  EXPECT_EQ(dreq.local_comm_id, id);
  EXPECT_EQ(dreq.remote_comm_id, kPeerId);
  EXPECT_EQ(dreq.remote_qpn, kPeerQp);
  EXPECT_EQ(dreq.private_data[0], std::byte{6});
  EXPECT_TRUE(bench.no_event());
  EXPECT_EQ(bench.receive(Bench::from_peer<CmDrep>(id)), Verdict::kHandled);
  EXPECT_EQ(bench.one_event(AgentEventKind::kDisconnected).id, id);
  EXPECT_EQ(bench.receive(Bench::from_peer<CmDrep>(id)), Verdict::kDuplicate);
  bench.pass(kTimewait - 1ns);
  EXPECT_TRUE(bench.no_event());
  bench.pass(1ns);
  EXPECT_EQ(bench.one_event(AgentEventKind::kTimewaitExit).id, id);
  EXPECT_TRUE(bench.agent.disconnect(bench.now, id)) << "it is; that is no mistake";
  EXPECT_TRUE(bench.sent_nothing());
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentDisconnect, ThePeersWishIsAnsweredAtOnce) {
  Bench bench;
  const auto id = bench.to_passive_established();
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kHandled);
  bench.one_event(AgentEventKind::kDisconnected);
  const auto drep = bench.sent_one<CmDrep>();
  EXPECT_EQ(drep.transaction, Bench::peer_dreq(id).transaction);
  EXPECT_EQ(drep.local_comm_id, id);
  EXPECT_EQ(drep.remote_comm_id, kPeerId);
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmDrep>(), drep) << "a duplicate gets the same answer";
  EXPECT_TRUE(bench.agent.disconnect(bench.now, id));
  EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
  bench.pass(kTimewait);
  bench.one_event(AgentEventKind::kTimewaitExit);
}

TEST(AgentDisconnect, AWishForAnotherQueuePairIsIgnored) {
  Bench bench;
  const auto id = bench.to_passive_established();
  auto dreq = Bench::peer_dreq(id);
  dreq.remote_qpn = wire::QpNumber{0x99};
  EXPECT_EQ(bench.receive(dreq), Verdict::kWrongQpn);
  EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
}

TEST(AgentDisconnect, BothMayAskAtOnce) {
  Bench bench;
  const auto id = bench.to_dreq_sent();
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kHandled);
  bench.sent_one<CmDrep>();
  bench.one_event(AgentEventKind::kDisconnected);
  EXPECT_EQ(bench.receive(Bench::from_peer<CmDrep>(id)), Verdict::kDuplicate);
  EXPECT_TRUE(bench.no_event()) << "once";
}

TEST(AgentDisconnect, ThePeerMayEndWhatItsRtuNeverSaid) {
  Bench bench;
  const auto id = bench.to_rep_sent();
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kHandled);
  bench.sent_one<CmDrep>();
  bench.one_event(AgentEventKind::kDisconnected);
}

TEST(AgentDisconnect, WhatThePeerDoesNotAnswerEndsAllTheSame) {
  Bench bench;
  const auto id = bench.to_active_established();
  ASSERT_TRUE(bench.agent.disconnect(bench.now, id));
  const auto dreq = bench.sent_one<CmDreq>();
  for (int copy = 0; copy < 15; ++copy) {
    bench.pass_to_deadline();
    EXPECT_EQ(bench.sent_one<CmDreq>(), dreq);
    EXPECT_TRUE(bench.no_event());
  }
  bench.pass_to_deadline();
  const auto event = bench.one_event(AgentEventKind::kDisconnected);
  EXPECT_FALSE(event.message) << "no message said so";
  EXPECT_TRUE(bench.sent_nothing());
  bench.pass(kTimewait);
  bench.one_event(AgentEventKind::kTimewaitExit);
}

TEST(AgentDisconnect, ARefusalEndsAnEstablishedConnection) {
  Bench bench;
  auto id = bench.to_active_established();
  EXPECT_EQ(bench.receive(Bench::from_peer<CmRej>(id)), Verdict::kHandled);
  bench.one_event(AgentEventKind::kRejected);
  bench.pass(kTimewait);
  bench.one_event(AgentEventKind::kTimewaitExit);

  id = bench.to_dreq_sent();
  EXPECT_EQ(bench.receive(Bench::from_peer<CmRej>(id)), Verdict::kHandled);
  bench.one_event(AgentEventKind::kDisconnected);
}

TEST(AgentDisconnect, OnlyAnEstablishedConnectionCanBeDisconnected) {
  Bench bench;
  EXPECT_EQ(bench.agent.disconnect(bench.now, wire::CommId{4}).error(), Errc::kNoSuchObject);
  auto id = bench.to_req_sent();
  EXPECT_EQ(bench.agent.disconnect(bench.now, id).error(), Errc::kInvalidArgument);
  (void)bench.sent();
  id = bench.to_req_received();
  EXPECT_EQ(bench.agent.disconnect(bench.now, id).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentDisconnect, AReplyCanBeTakenBack) {
  Bench bench;
  const auto id = bench.to_rep_sent();
  ASSERT_TRUE(bench.agent.disconnect(bench.now, id));
  const auto sent = bench.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(std::get<CmRej>(sent[0]).reason, RejectReason::kConsumer);
  EXPECT_EQ(std::get<CmDreq>(sent[1]).local_comm_id, id);
  EXPECT_EQ(bench.receive(Bench::from_peer<CmDrep>(id)), Verdict::kHandled);
  bench.one_event(AgentEventKind::kDisconnected);
}

TEST(AgentDisconnect, DestroyingDisconnectsProperly) {
  Bench bench;
  const auto id = bench.to_active_established();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  const auto dreq = bench.sent_one<CmDreq>();
  bench.pass_to_deadline();
  EXPECT_EQ(bench.sent_one<CmDreq>(), dreq) << "until the peer agrees";
  EXPECT_EQ(bench.receive(Bench::from_peer<CmDrep>(id)), Verdict::kHandled);
  EXPECT_EQ(bench.agent.communication_count(), 1U) << "it rests";
  bench.pass(kTimewait);
  EXPECT_EQ(bench.agent.communication_count(), 0U);
  EXPECT_TRUE(bench.no_event());
}

TEST(AgentDisconnect, ADisconnectRequestForNoConnectionIsAnswered) {
  Bench bench;
  const auto dreq = Bench::peer_dreq(wire::CommId{0x2a123456});
  EXPECT_EQ(bench.receive(dreq), Verdict::kAnswered);
  const auto drep = bench.sent_one<CmDrep>();
  EXPECT_EQ(drep.local_comm_id, dreq.remote_comm_id);
  EXPECT_EQ(drep.remote_comm_id, dreq.local_comm_id);
  EXPECT_EQ(drep.transaction, dreq.transaction);
}

TEST(AgentDisconnect, ADisconnectRequestCanBeRepeatedBeforeItsTimeout) {
  Bench bench;
  const auto standing = bench.to_active_established();
  EXPECT_FALSE(bench.agent.has_open_disconnects());
  bench.agent.repeat_disconnects();
  EXPECT_TRUE(bench.sent_nothing());
  ASSERT_TRUE(bench.agent.destroy(bench.now, standing));
  const auto dreq = bench.sent_one<CmDreq>();
  EXPECT_TRUE(bench.agent.has_open_disconnects()) << "destroyed, not acknowledged";
  bench.agent.repeat_disconnects();
  EXPECT_EQ(bench.sent_one<CmDreq>(), dreq);
  EXPECT_EQ(bench.receive(Bench::from_peer<CmDrep>(standing)), Verdict::kHandled);
  EXPECT_FALSE(bench.agent.has_open_disconnects());
}

TEST(AgentDisconnect, ItKnowsBetweenWhichAddressesConnectionsAreEstablished) {
  Bench bench;
  const auto id = bench.to_passive_established();
  const Address other_way{.local = kAddress.remote, .remote = kAddress.local};
  EXPECT_TRUE(bench.agent.has_connection(kService, kAddress));
  EXPECT_TRUE(bench.agent.has_connection(kService, other_way));
  const auto number = static_cast<std::uint64_t>(kService);
  EXPECT_TRUE(bench.agent.has_connection(wire::ServiceId{number ^ 0x10000}, kAddress))
      << "the same port of another port space";
  EXPECT_FALSE(bench.agent.has_connection(wire::ServiceId{number ^ 1}, kAddress));
  const Address strangers{.local = kAddress.local, .remote = kAddress.local};
  EXPECT_FALSE(bench.agent.has_connection(kService, strangers));
  ASSERT_TRUE(bench.agent.disconnect(bench.now, id));
  EXPECT_FALSE(bench.agent.has_connection(kService, kAddress));
}

TEST(AgentDisconnect, NoRestIsLongerThanItsLimit) {
  Bench bench;
  bench.listen();
  auto req = Bench::peer_req();
  req.primary.local_ack_timeout = 31;
  req.remote_cm_response_timeout = 31;
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  auto id = bench.one_event(AgentEventKind::kConnectRequest).id;
  ASSERT_TRUE(bench.agent.reject(bench.now, id, {}));
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  bench.pass(Agent::kRestMax);
  EXPECT_EQ(bench.agent.communication_count(), 0U);

  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  id = bench.one_event(AgentEventKind::kConnectRequest).id;
  ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kHandled);
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  bench.pass(Agent::kRestMax);
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

}  // namespace
}  // namespace verbatim::cm::test
