// SPDX-License-Identifier: Apache-2.0
// Service ID resolution: which queue pair takes datagrams for a service.
#include <gtest/gtest.h>

#include "cm/test_agent.h"

namespace verbatim::cm::test {
namespace {

using wire::CmSidrRep;
using wire::CmSidrReq;
using wire::SidrStatus;

CmSidrReq peer_sidr() {
  return {.transaction = wire::TransactionId{5}, .request_id = kPeerId, .service_id = kService};
}

wire::CommId to_sidr_sent(Bench& bench) {
  const auto id =
      bench.agent.resolve_service(bench.now, {.address = kAddress, .service_id = kService});
  EXPECT_TRUE(id);
  return *id;
}

TEST(AgentService, AServiceIsAskedForAndResolved) {
  Bench bench;
  const std::array<std::byte, 1> data{std::byte{1}};
  const auto id = bench.agent.resolve_service(
      bench.now, {.address = kAddress, .service_id = kService, .private_data = data});
  ASSERT_TRUE(id);
  const auto req = bench.sent_one<CmSidrReq>();
  EXPECT_EQ(bench.last_address, kAddress);
  EXPECT_EQ(req.request_id, *id);
  EXPECT_EQ(req.service_id, kService);
  EXPECT_EQ(req.pkey, wire::PKey::kDefault);
  EXPECT_EQ(req.private_data[0], std::byte{1});
  EXPECT_EQ(bench.receive(CmSidrRep{.request_id = *id,
                                    .qpn = kPeerQp,
                                    .service_id = kService,
                                    .qkey = wire::QKey{0x1234567}}),
            Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kServiceReply);
  EXPECT_EQ(event.id, *id);
  EXPECT_EQ(event.as<CmSidrRep>()->qpn, kPeerQp);
  EXPECT_FALSE(bench.pass_to_deadline() && !bench.sent_nothing()) << "that was all";
  ASSERT_TRUE(bench.agent.destroy(bench.now, *id));
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentService, AQuestionIsRepeatedUntilTheRetriesAreOver) {
  Bench bench;
  const auto id = to_sidr_sent(bench);
  const auto req = bench.sent_one<CmSidrReq>();
  for (int copy = 0; copy < 15; ++copy) {
    bench.pass(duration_of(kResponseTimeout));
    EXPECT_EQ(bench.sent_one<CmSidrReq>(), req);
  }
  bench.pass(duration_of(kResponseTimeout));
  EXPECT_EQ(bench.one_event(AgentEventKind::kServiceUnreachable).id, id);
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentService, OnlyThePeerThatWasAskedMayAnswer) {
  Bench bench;
  const auto id = to_sidr_sent(bench);
  const CmSidrRep rep{.request_id = id};
  EXPECT_EQ(bench.receive(rep, {.local = gid(1), .remote = gid(9)}), Verdict::kWrongPeer);
  EXPECT_EQ(bench.receive(CmSidrRep{.request_id = kPeerId}), Verdict::kUnknownId);
  EXPECT_TRUE(bench.no_event());
  EXPECT_EQ(bench.receive(rep), Verdict::kHandled);
  EXPECT_EQ(bench.receive(rep), Verdict::kWrongState) << "once";
}

TEST(AgentService, AQuestionIsForTheUserToAnswer) {
  Bench bench;
  const auto listener = bench.listen();
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kServiceRequest);
  EXPECT_EQ(event.listener, listener);
  EXPECT_EQ(event.service_id, kService);
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kDuplicate);
  EXPECT_TRUE(bench.sent_nothing()) << "the user has the word";
  ASSERT_TRUE(bench.agent.answer_service(bench.now, event.id,
                                         {.qpn = kOurQp, .qkey = wire::QKey{0x1234567}}));
  const auto rep = bench.sent_one<CmSidrRep>();
  EXPECT_EQ(rep.transaction, peer_sidr().transaction);
  EXPECT_EQ(rep.request_id, kPeerId);
  EXPECT_EQ(rep.status, SidrStatus::kValid);
  EXPECT_EQ(rep.qpn, kOurQp);
  EXPECT_EQ(rep.qkey, wire::QKey{0x1234567});
  EXPECT_EQ(rep.service_id, kService);
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmSidrRep>(), rep) << "a duplicate gets the same answer";
  EXPECT_FALSE(bench.agent.answer_service(bench.now, event.id, {}));
  ASSERT_TRUE(bench.agent.destroy(bench.now, event.id));
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmSidrRep>(), rep);
  bench.let_all_expire();
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentService, QuestionsWithoutAListenerAreAnswered) {
  Bench bench;
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kNoListener);
  const auto rep = bench.sent_one<CmSidrRep>();
  EXPECT_EQ(rep.status, SidrStatus::kServiceNotSupported);
  EXPECT_EQ(rep.request_id, kPeerId);
  EXPECT_EQ(rep.service_id, kService);
}

TEST(AgentService, QuestionsCountForTheBacklog) {
  Bench bench;
  bench.listen(/*backlog=*/1);
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kHandled);
  auto other = peer_sidr();
  other.request_id = wire::CommId{6};
  EXPECT_EQ(bench.receive(other), Verdict::kBacklogFull);
  ASSERT_TRUE(bench.agent.take(bench.one_event(AgentEventKind::kServiceRequest).id));
  EXPECT_EQ(bench.receive(other), Verdict::kHandled);
}

TEST(AgentService, DestroyingAQuestionAnswersNo) {
  Bench bench;
  bench.listen();
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kHandled);
  ASSERT_TRUE(bench.agent.destroy(bench.now, bench.one_event(AgentEventKind::kServiceRequest).id));
  EXPECT_EQ(bench.sent_one<CmSidrRep>().status, SidrStatus::kRejected);
}

TEST(AgentService, DestroyingOurQuestionForgetsIt) {
  Bench bench;
  const auto id = to_sidr_sent(bench);
  (void)bench.sent();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.agent.communication_count(), 0U);
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentService, WhatFitsNoMessageIsRefused) {
  Bench bench;
  static const std::array<std::byte, 217> too_long{};
  EXPECT_FALSE(bench.agent.resolve_service(bench.now, {.private_data = too_long}));
  EXPECT_FALSE(bench.agent.resolve_service(bench.now, {.max_cm_retries = 16}));
  bench.listen();
  EXPECT_EQ(bench.receive(peer_sidr()), Verdict::kHandled);
  const auto id = bench.one_event(AgentEventKind::kServiceRequest).id;
  EXPECT_FALSE(bench.agent.answer_service(bench.now, id, {.info = too_long}));
  EXPECT_FALSE(bench.agent.answer_service(bench.now, id, {.private_data = too_long}));
  EXPECT_FALSE(bench.agent.accept(bench.now, id, {})) << "it is no request for a connection";
  EXPECT_TRUE(bench.sent_nothing());
}

}  // namespace
}  // namespace verbatim::cm::test
