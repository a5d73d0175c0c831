// SPDX-License-Identifier: Apache-2.0
// The side that listens.
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

constexpr Duration kRepInterval = duration_of(TimeCode{18});  // from the peer's request

TEST(AgentPassive, ARequestBringsAllThatThePeerSays) {
  Bench bench;
  const auto listener = bench.listen();
  auto req = Bench::peer_req();
  req.private_data[0] = std::byte{8};
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kConnectRequest);
  EXPECT_EQ(event.listener, listener);
  EXPECT_EQ(event.service_id, kService);
  EXPECT_EQ(event.address, kAddress);
  EXPECT_EQ(slot_of(event.id), kSlot);
  EXPECT_EQ(*event.as<CmReq>(), req);
  EXPECT_EQ(event.private_data().size(), 92U);
  EXPECT_TRUE(bench.sent_nothing()) << "the user has the word";

  const auto settings = bench.agent.qp_settings(event.id);
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->address, kAddress);
  EXPECT_EQ(settings->travel, (Travel{.flow_label = 0x12345, .traffic_class = 0x68}));
  EXPECT_EQ(settings->remote_qpn, kPeerQp);
  EXPECT_EQ(settings->send_psn, wire::Psn(0x200));
  EXPECT_EQ(settings->responder_resources, 6) << "the peer's depth";
  EXPECT_EQ(settings->initiator_depth, 5) << "the peer's resources";
  EXPECT_EQ(settings->retry_count, 7);
  EXPECT_EQ(settings->rnr_retry_count, 6);
  EXPECT_EQ(settings->ack_timeout, TimeCode{17});
  EXPECT_EQ(settings->path_mtu, wire::PathMtu::k1024);
}

TEST(AgentPassive, IsFoundByItsSettingsAsLongAsTheUserHasIt) {
  Bench bench;
  const auto id = bench.to_req_received();
  const auto with_qp = [&](wire::QpNumber qpn) {
    return bench.agent.find_all(
        [&](const QpSettings& settings) { return settings.remote_qpn == qpn; });
  };
  EXPECT_EQ(with_qp(kPeerQp), std::vector{id});
  EXPECT_TRUE(with_qp(kOurQp).empty());
  const auto asked = bench.agent.connect(bench.now, Bench::connect_request());
  ASSERT_TRUE(asked);
  EXPECT_EQ(bench.agent.find_all([](const QpSettings&) { return true; }), std::vector{id})
      << "the user has not answered the other one";
  EXPECT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_TRUE(with_qp(kPeerQp).empty());
}

TEST(AgentPassive, AReplySaysWhatTheUserAccepts) {
  Bench bench;
  const auto id = bench.to_req_received();
  AcceptRequest accept = Bench::accept_request();
  accept.responder_resources = 2;
  accept.initiator_depth = 1;
  accept.rnr_retry_count = 4;
  const std::array<std::byte, 2> data{std::byte{3}, std::byte{4}};
  accept.private_data = data;
  ASSERT_TRUE(bench.agent.accept(bench.now, id, accept));
  const auto rep = bench.sent_one<CmRep>();
  EXPECT_EQ(bench.last_address, kAddress);
  EXPECT_EQ(rep.transaction, Bench::peer_req().transaction);
  EXPECT_EQ(rep.local_comm_id, id);
  EXPECT_EQ(rep.remote_comm_id, kPeerId);
  EXPECT_EQ(rep.local_qpn, kOurQp);
  EXPECT_EQ(rep.starting_psn, wire::Psn(0x100));
  EXPECT_EQ(rep.responder_resources, 2);
  EXPECT_EQ(rep.initiator_depth, 1);
  EXPECT_EQ(rep.rnr_retry_count, 4);
  EXPECT_EQ(rep.target_ack_delay, 15);
  EXPECT_EQ(rep.failover, wire::CmFailover::kAccepted);
  EXPECT_EQ(rep.local_ca_guid, kOurGuid);
  EXPECT_EQ(rep.private_data[1], std::byte{4});
  const auto settings = bench.agent.qp_settings(id);
  EXPECT_EQ(settings->receive_psn, wire::Psn(0x100));
  EXPECT_EQ(settings->responder_resources, 2);
  EXPECT_EQ(settings->initiator_depth, 1);
  EXPECT_FALSE(bench.agent.accept(bench.now, id, accept)) << "once";
}

TEST(AgentPassive, AnAnswerThatFitsNoMessageIsRefused) {
  Bench bench;
  const auto id = bench.to_req_received();
  static const std::array<std::byte, 197> too_long{};
  AcceptRequest accept = Bench::accept_request();
  accept.private_data = too_long;
  EXPECT_EQ(bench.agent.accept(bench.now, id, accept).error(), Errc::kInvalidArgument);
  EXPECT_EQ(bench.agent.reject(bench.now, id, {.private_data = too_long}).error(),
            Errc::kInvalidArgument);
  EXPECT_EQ(bench.agent.reject(bench.now, id, {.info = too_long}).error(), Errc::kInvalidArgument);
  EXPECT_EQ(bench.agent.accept(bench.now, wire::CommId{1}, {}).error(), Errc::kNoSuchObject);
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentPassive, AnXrcTargetHasItsNumberElsewhere) {
  Bench bench;
  bench.listen();
  auto req = Bench::peer_req();
  req.transport = wire::CmTransport::kExtended;
  req.extended_transport = wire::CmExtendedTransport::kXrc;
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  const auto id = bench.one_event(AgentEventKind::kConnectRequest).id;
  ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
  const auto rep = bench.sent_one<CmRep>();
  EXPECT_EQ(rep.local_qpn, wire::QpNumber{0});
  EXPECT_EQ(rep.local_eecn, static_cast<std::uint32_t>(kOurQp));
}

TEST(AgentPassive, ASecondPathIsNotSupported) {
  Bench bench;
  bench.listen();
  auto req = Bench::peer_req();
  req.alternate.local_lid = wire::Lid::kPermissive;
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  const auto id = bench.one_event(AgentEventKind::kConnectRequest).id;
  ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
  EXPECT_EQ(bench.sent_one<CmRep>().failover, wire::CmFailover::kNotSupported);
}

TEST(AgentPassive, TheRtuEstablishes) {
  Bench bench;
  const auto id = bench.to_rep_sent();
  auto rtu = Bench::from_peer<CmRtu>(id);
  rtu.private_data[0] = std::byte{1};
  EXPECT_EQ(bench.receive(rtu), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kEstablished);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.private_data()[0], std::byte{1});
  EXPECT_EQ(bench.receive(rtu), Verdict::kDuplicate);
  EXPECT_TRUE(bench.no_event());
  bench.pass(1h);
  EXPECT_TRUE(bench.sent_nothing()) << "no answer is due";
}

TEST(AgentPassive, DataEstablishesWhenTheRtuIsLost) {
  Bench bench;
  const auto id = bench.to_rep_sent();
  ASSERT_TRUE(bench.agent.handle_first_data(bench.now, id));
  bench.one_event(AgentEventKind::kEstablished);
  ASSERT_TRUE(bench.agent.handle_first_data(bench.now, id));
  EXPECT_EQ(bench.receive(Bench::from_peer<CmRtu>(id)), Verdict::kDuplicate);
  EXPECT_TRUE(bench.no_event()) << "once";
  bench.pass(1h);
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentPassive, ADuplicateRequestGetsTheReplyAgain) {
  Bench bench;
  const auto id = bench.to_req_received();
  ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
  const auto rep = bench.sent_one<CmRep>();
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmRep>(), rep);
  EXPECT_TRUE(bench.no_event());
}

TEST(AgentPassive, ADuplicateRequestGetsTheRefusalAgain) {
  Bench bench;
  const auto id = bench.to_req_received();
  const std::array<std::byte, 1> info{std::byte{1}};
  const std::array<std::byte, 1> data{std::byte{2}};
  ASSERT_TRUE(bench.agent.reject(
      bench.now, id, {.reason = RejectReason::kNoResources, .info = info, .private_data = data}));
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.reason, RejectReason::kNoResources);
  EXPECT_EQ(rej.rejected, CmRej::Rejected::kReq);
  EXPECT_EQ(rej.transaction, Bench::peer_req().transaction);
  EXPECT_EQ(rej.local_comm_id, id);
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  EXPECT_EQ(rej.info().size(), 1U);
  EXPECT_EQ(rej.private_data[0], std::byte{2});
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kDuplicate);
  EXPECT_EQ(bench.sent_one<CmRej>(), rej);
  EXPECT_TRUE(bench.no_event());
  bench.let_all_expire();
  EXPECT_EQ(bench.agent.communication_count(), 0U);
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kHandled) << "a new request by now";
}

TEST(AgentPassive, ADuplicateRequestThatWaitsForTheUserIsMetWithPatience) {
  Bench bench;
  const auto id = bench.to_req_received();
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kDuplicate);
  const auto mra = bench.sent_one<CmMra>();
  EXPECT_EQ(mra.received, CmMra::Received::kReq);
  EXPECT_EQ(mra.service_timeout, 24);
  EXPECT_EQ(mra.local_comm_id, id);
  EXPECT_EQ(mra.remote_comm_id, kPeerId);
  EXPECT_EQ(mra.transaction, Bench::peer_req().transaction);
}

TEST(AgentPassive, TheUserMayAskForMoreTime) {
  Bench bench;
  const auto id = bench.to_req_received();
  ASSERT_TRUE(bench.agent.delay_answer(bench.now, id, TimeCode{21}));
  EXPECT_EQ(bench.sent_one<CmMra>().service_timeout, 21);
  ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
  EXPECT_FALSE(bench.agent.delay_answer(bench.now, id, TimeCode{21}));
}

TEST(AgentPassive, AReplyIsRepeatedAsThePeerAskedFor) {
  Bench bench;
  const auto id = bench.to_req_received();
  ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
  const auto rep = bench.sent_one<CmRep>();
  for (int copy = 0; copy < 15; ++copy) {
    bench.pass(kRepInterval);
    EXPECT_EQ(bench.sent_one<CmRep>(), rep);
  }
  bench.pass(kRepInterval);
  EXPECT_EQ(bench.one_event(AgentEventKind::kUnreachable).id, id);
  const auto sent = bench.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(std::get<CmRej>(sent[0]).reason, RejectReason::kTimeout);
  EXPECT_EQ(std::get<CmDreq>(sent[1]).remote_comm_id, kPeerId)
      << "the peer may hold the connection for made";
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmDrep>(id)), Verdict::kHandled);
  EXPECT_TRUE(bench.no_event()) << "the user knows";
  bench.pass(duration_of(TimeCode{17}));
  bench.one_event(AgentEventKind::kTimewaitExit);
}

TEST(AgentPassive, AnMraForTheReplyGivesThePeerItsTime) {
  Bench bench;
  const auto id = bench.to_rep_sent();
  auto mra = Bench::from_peer<CmMra>(id);
  mra.received = CmMra::Received::kRep;
  mra.service_timeout = 22;
  EXPECT_EQ(bench.receive(mra), Verdict::kHandled);
  bench.one_event(AgentEventKind::kDelayed);
  bench.pass(duration_of(TimeCode{22}) + kRepInterval - 1ns);
  EXPECT_TRUE(bench.sent_nothing());
  bench.pass(1ns);
  bench.sent_one<CmRep>();
}

TEST(AgentPassive, APeerCannotMakeUsRepeatWithoutEnd) {
  Bench bench;
  bench.listen();
  for (const std::uint8_t code : {std::uint8_t{0}, std::uint8_t{31}}) {
    auto req = Bench::peer_req();
    req.local_comm_id = wire::CommId{code};
    req.local_qpn = wire::QpNumber{code + 100U};
    req.local_cm_response_timeout = code;
    EXPECT_EQ(bench.receive(req), Verdict::kHandled);
    const auto id = bench.one_event(AgentEventKind::kConnectRequest).id;
    ASSERT_TRUE(bench.agent.accept(bench.now, id, Bench::accept_request()));
    bench.sent_one<CmRep>();
    const auto next = bench.agent.next_timeout();
    ASSERT_TRUE(next);
    EXPECT_GE(*next - bench.now, Agent::kPatienceMin);
    EXPECT_LE(*next - bench.now, Agent::kPatienceMax);
    ASSERT_TRUE(bench.agent.destroy(bench.now, id));
    bench.let_all_expire();
  }
}

TEST(AgentPassive, ARequestWithoutAListenerIsRefused) {
  Bench bench;
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kNoListener);
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(bench.last_address, kAddress);
  EXPECT_EQ(rej.reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(rej.rejected, CmRej::Rejected::kReq);
  EXPECT_EQ(rej.local_comm_id, wire::CommId{0});
  EXPECT_EQ(rej.remote_comm_id, kPeerId);
  EXPECT_EQ(rej.transaction, Bench::peer_req().transaction);
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentPassive, RequestsThatTheAgentDoesNotSupportAreRefused) {
  Bench bench({.path_mtu_max = wire::PathMtu::k1024});
  bench.listen();
  auto req = Bench::peer_req();
  req.transport = wire::CmTransport::kRd;
  EXPECT_EQ(bench.receive(req), Verdict::kInvalidRequest);
  EXPECT_EQ(bench.sent_one<CmRej>().reason, RejectReason::kInvalidTransportType);
  req.transport = wire::CmTransport::kExtended;
  EXPECT_EQ(bench.receive(req), Verdict::kInvalidRequest);
  EXPECT_EQ(bench.sent_one<CmRej>().reason, RejectReason::kInvalidTransportType);
  for (const unsigned mtu : {0U, 4U, 5U, 6U, 15U}) {
    req = Bench::peer_req();
    req.path_mtu = static_cast<wire::PathMtu>(mtu);
    EXPECT_EQ(bench.receive(req), Verdict::kInvalidRequest);
    EXPECT_EQ(bench.sent_one<CmRej>().reason, RejectReason::kInvalidPathMtu);
  }
  req = Bench::peer_req();
  req.primary.remote_gid = gid(77);
  EXPECT_EQ(bench.receive(req), Verdict::kInvalidRequest);
  const auto rej = bench.sent_one<CmRej>();
  EXPECT_EQ(rej.reason, RejectReason::kPrimaryGid);
  EXPECT_TRUE(std::ranges::equal(rej.info(), std::as_bytes(std::span(kAddress.local.octets))));
  EXPECT_TRUE(bench.no_event());
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentPassive, AFullBacklogDropsAndThePeerTriesAgain) {
  Bench bench;
  bench.listen(/*backlog=*/2);
  const auto request = [](std::uint32_t number) {
    auto req = Bench::peer_req();
    req.local_comm_id = wire::CommId{number};
    req.local_qpn = wire::QpNumber{number};
    return req;
  };
  EXPECT_EQ(bench.receive(request(101)), Verdict::kHandled);
  EXPECT_EQ(bench.receive(request(102)), Verdict::kHandled);
  EXPECT_EQ(bench.receive(request(103)), Verdict::kBacklogFull);
  EXPECT_TRUE(bench.sent_nothing()) << "dropped, not refused";
  const auto events = bench.events();
  ASSERT_EQ(events.size(), 2U);
  ASSERT_TRUE(bench.agent.take(events[0].id));
  ASSERT_TRUE(bench.agent.take(events[0].id));
  EXPECT_EQ(bench.receive(request(103)), Verdict::kHandled) << "the user has taken one";
  EXPECT_EQ(bench.receive(request(104)), Verdict::kBacklogFull);
  ASSERT_TRUE(bench.agent.reject(bench.now, events[1].id, {}));
  EXPECT_EQ(bench.receive(request(104)), Verdict::kHandled) << "an answer takes it, too";
  EXPECT_EQ(bench.agent.counters().of(Verdict::kBacklogFull), 2U);
}

TEST(AgentPassive, ThePeerMayGiveUpBeforeTheUserAnswers) {
  Bench bench;
  const auto id = bench.to_req_received();
  CmRej rej{.local_comm_id = kPeerId,
            .rejected = CmRej::Rejected::kOther,
            .reason = RejectReason::kTimeout,
            .info_octets = 8};
  rej.info_field[6] = std::byte{0x33};
  EXPECT_EQ(bench.receive(rej), Verdict::kUnknownId) << "another adapter's";
  rej.info_field[6] = rej.info_field[7] = std::byte{0x22};
  EXPECT_EQ(bench.receive(rej, {.local = gid(1), .remote = gid(3)}), Verdict::kUnknownId);
  EXPECT_EQ(bench.receive(rej), Verdict::kHandled);
  const auto event = bench.one_event(AgentEventKind::kRejected);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.reason, RejectReason::kTimeout);
  EXPECT_FALSE(bench.agent.accept(bench.now, id, Bench::accept_request())) << "too late";
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kDuplicate) << "an old copy";
  EXPECT_TRUE(bench.sent_nothing());
}

TEST(AgentPassive, ThePeerMayRefuseOurReply) {
  Bench bench;
  const auto id = bench.to_rep_sent();
  auto rej = Bench::from_peer<CmRej>(id);
  rej.rejected = CmRej::Rejected::kRep;
  rej.reason = RejectReason::kConsumer;
  EXPECT_EQ(bench.receive(rej), Verdict::kHandled);
  EXPECT_EQ(bench.one_event(AgentEventKind::kRejected).reason, RejectReason::kConsumer);
  bench.let_all_expire();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentPassive, ARequestOfAQueuePairThatIsConnectedIsStale) {
  Bench bench;
  const auto old = bench.to_passive_established();
  auto req = Bench::peer_req();
  req.local_comm_id = wire::CommId{0x5};
  EXPECT_EQ(bench.receive(req), Verdict::kStaleConnection);
  const auto sent = bench.sent();
  ASSERT_EQ(sent.size(), 2U);
  const auto& rej = std::get<CmRej>(sent[0]);
  EXPECT_EQ(rej.reason, RejectReason::kStaleConnection);
  EXPECT_EQ(rej.remote_comm_id, req.local_comm_id);
  EXPECT_EQ(std::get<CmRep>(sent[1]).local_comm_id, old) << "the peer is asked about the old one";
  // It does not answer.
  std::vector<wire::CmMessage> last;
  for (int copies = 0; copies < 16 && last.empty(); ++copies) {
    EXPECT_TRUE(bench.pass_to_deadline());
    for (const auto& message : bench.sent()) {
      if (std::holds_alternative<CmDreq>(message)) last.push_back(message);
    }
  }
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(std::get<CmDreq>(last[0]).local_comm_id, old) << "the old one is given up";
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmDrep>(old)), Verdict::kHandled);
  EXPECT_EQ(bench.one_event(AgentEventKind::kDisconnected).id, old);
  EXPECT_EQ(bench.receive(req), Verdict::kStaleConnection) << "not before timewait is over";
  bench.sent_one<CmRej>();
  bench.pass(duration_of(TimeCode{17}));
  bench.one_event(AgentEventKind::kTimewaitExit);
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
}

TEST(AgentPassive, ARequestInTheNameOfAPeerThatIsThereEndsNothing) {
  Bench bench;
  const auto old = bench.to_passive_established();
  auto req = Bench::peer_req();
  req.local_comm_id = wire::CommId{0x5};
  for (int times = 0; times < 3; ++times) {
    EXPECT_EQ(bench.receive(req), Verdict::kStaleConnection);
    EXPECT_EQ(bench.receive(req), Verdict::kStaleConnection);
    EXPECT_EQ(bench.sent().size(), 3U) << "two refusals, and one question at a time";
    EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmRtu>(old)), Verdict::kDuplicate);
    bench.pass(std::chrono::hours(1));
    EXPECT_TRUE(bench.sent().empty());
  }
  EXPECT_FALSE(bench.agent.poll_event().has_value());
}

TEST(AgentPassive, TheSameQueuePairNumberOfAnotherPeerIsNotStale) {
  Bench bench;
  bench.to_passive_established();
  auto req = Bench::peer_req();
  req.local_comm_id = wire::CommId{0x5};
  req.local_ca_guid = wire::Guid{0x3333};
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  req = Bench::peer_req();
  req.primary.local_gid = gid(3);
  EXPECT_EQ(bench.receive(req, {.local = gid(1), .remote = gid(3)}), Verdict::kHandled);
}

TEST(AgentPassive, AnOldCopyOfTheRequestIsStaleInTimewaitAndIgnoredBefore) {
  Bench bench;
  const auto id = bench.to_passive_established();
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kDuplicate);
  EXPECT_TRUE(bench.sent_nothing());
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kHandled);
  (void)bench.sent();
  EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kStaleConnection);
  EXPECT_EQ(bench.sent_one<CmRej>().reason, RejectReason::kStaleConnection);
}

TEST(AgentPassive, DestroyingAnswersThePeer) {
  Bench bench;
  auto id = bench.to_req_received();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  EXPECT_EQ(bench.sent_one<CmRej>().reason, RejectReason::kConsumer);
  bench.let_all_expire();

  id = bench.to_rep_sent();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  const auto sent = bench.sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(std::get<CmRej>(sent[0]).reason, RejectReason::kConsumer);
  EXPECT_EQ(std::get<CmDreq>(sent[1]).remote_comm_id, kPeerId);
  bench.let_all_expire();
  EXPECT_EQ(bench.agent.communication_count(), 0U);
}

TEST(AgentPassive, UnlisteningRefusesRequestsThatWereNotTaken) {
  Bench bench;
  const auto listener = bench.listen();
  const auto taken = bench.to_req_received();
  ASSERT_TRUE(bench.agent.take(taken));
  auto req = Bench::peer_req();
  req.local_comm_id = wire::CommId{9};
  req.local_qpn = wire::QpNumber{9};
  EXPECT_EQ(bench.receive(req), Verdict::kHandled);
  ASSERT_TRUE(bench.agent.unlisten(bench.now, listener));
  EXPECT_TRUE(bench.no_event());
  EXPECT_EQ(bench.sent_one<CmRej>().remote_comm_id, wire::CommId{9});
  EXPECT_TRUE(bench.agent.accept(bench.now, taken, Bench::accept_request()));
  EXPECT_EQ(bench.agent.unlisten(bench.now, listener).error(), Errc::kNoSuchObject);
  EXPECT_FALSE(bench.agent.listens_for(kService, kAddress.local));
}

TEST(AgentPassive, TooManyCommunicationsDropRequests) {
  Bench bench({.communications_max = 3});
  bench.listen();
  const auto request = [](std::uint32_t number) {
    auto req = Bench::peer_req();
    req.local_comm_id = wire::CommId{number};
    req.local_qpn = wire::QpNumber{number};
    return req;
  };
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(bench.receive(request(i)), Verdict::kHandled);
  EXPECT_EQ(bench.receive(request(3)), Verdict::kNoRoom);
  EXPECT_TRUE(bench.sent_nothing());
  EXPECT_EQ(bench.agent.connect(bench.now, Bench::connect_request()).error(), Errc::kNoMemory);
  const auto events = bench.events();
  ASSERT_TRUE(bench.agent.destroy(bench.now, events[0].id));
  EXPECT_EQ(bench.receive(request(3)), Verdict::kHandled) << "a refusal that rests makes room";
  EXPECT_EQ(bench.agent.communication_count(), 3U);
}

}  // namespace
}  // namespace verbatim::cm::test
