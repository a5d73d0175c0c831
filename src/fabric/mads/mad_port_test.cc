// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/mad_port.h"

#include <gtest/gtest.h>

#include "fabric/mads/test_mads.h"

namespace verbatim::fabric {
namespace {

using test::claim;
using test::kClient;
using test::milliseconds;
using test::PairOfPorts;
using test::to;
using test::transaction_of;
using wire::Lid;
using wire::MadMethod;
using wire::MgmtClass;

constexpr ClientId kOther{8};
constexpr auto kLost = test::PipeFaults{.loss_per_mille = 1000};

/// The answer to a datagram that a program got.
UserMad answer_to(const UserMad& request) {
  UserMad answer{.agent = request.agent, .address = request.address, .octets = request.octets};
  answer.octets[3] |= std::byte{0x80};
  return answer;
}

TEST(MadPort, ARequestIsAnsweredAndTheLowerHalfOfItsTransactionIsKept) {
  PairOfPorts pair;
  const AgentId asker = pair.agent(0, {});
  const AgentId answerer = pair.agent(1, claim(MgmtClass::kPerformance, {1}));
  ASSERT_TRUE(pair.post(0, to(Lid{2}, asker, test::datagram({.transaction = 0xaaaa'bbbb'0000'0042}),
                              milliseconds(9))));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->client, kClient);
  EXPECT_EQ(request->mad.agent, answerer);
  EXPECT_EQ(request->mad.address.lid, Lid{1});
  EXPECT_EQ(request->mad.address.qpn, wire::QpNumber::kGsi);
  EXPECT_EQ(request->mad.octets.size(), wire::Mad::kSize);
  // The answering program sees the number of the asking agent, which is not what was posted.
  EXPECT_NE(transaction_of(request->mad), 0xaaaa'bbbb'0000'0042U);
  ASSERT_TRUE(pair.post(1, answer_to(request->mad)));
  const auto answer = pair.next(0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->mad.agent, asker);
  EXPECT_EQ(answer->mad.status, 0);
  EXPECT_EQ(transaction_of(answer->mad) & 0xffff'ffff, 0x42);
  EXPECT_EQ(pair.port(0).outstanding_count(), 0);
  EXPECT_FALSE(pair.next(0));  // neither a timeout
}

TEST(MadPort, ARequestWithoutAnswerComesBackAMillisecondBeforeItsTime) {
  PairOfPorts pair(kLost);
  const AgentId asker = pair.agent(0, {});
  ASSERT_TRUE(pair.post(0, to(Lid{2}, asker, test::datagram({}), milliseconds(100), 2)));
  const auto failure = pair.next(0);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->mad.status, 110);
  EXPECT_EQ(failure->mad.octets.size(), 24);
  EXPECT_EQ(failure->mad.agent, asker);
  EXPECT_EQ(failure->mad.address.lid, Lid{2});
  EXPECT_EQ(transaction_of(failure->mad) & 0xffff'ffff, 0x11);
  EXPECT_EQ(pair.now().since_start(), milliseconds(299));
  EXPECT_EQ(pair.carried(), 3);
  EXPECT_EQ(pair.port(0).counters().repeated, 2);
  EXPECT_EQ(pair.port(0).counters().unanswered, 1);
  EXPECT_FALSE(pair.port(0).next_timeout());
}

TEST(MadPort, AMillisecondOfPatienceIsNotShortened) {
  PairOfPorts pair(kLost);
  ASSERT_TRUE(pair.post(0, to(Lid{2}, pair.agent(0, {}), test::datagram({}), milliseconds(1))));
  ASSERT_TRUE(pair.next(0));
  EXPECT_EQ(pair.now().since_start(), milliseconds(1));
}

TEST(MadPort, ALateAnswerAndASecondOneAreDropped) {
  PairOfPorts pair;
  const AgentId asker = pair.agent(0, {});
  (void)pair.agent(1, claim(MgmtClass::kPerformance, {1}));
  ASSERT_TRUE(pair.post(0, to(Lid{2}, asker, test::datagram({}), milliseconds(9))));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  ASSERT_TRUE(pair.next(0));
  ASSERT_TRUE(pair.post(1, answer_to(request->mad)));
  EXPECT_FALSE(pair.next(0));
  EXPECT_EQ(pair.port(0).counters().received[static_cast<std::size_t>(MadVerdict::kUnmatched)], 1);
}

TEST(MadPort, ATransactionOfAnAgentIsOutstandingOnce) {
  PairOfPorts pair(kLost);
  const AgentId asker = pair.agent(0, {});
  const AgentId second = pair.agent(0, {});
  const auto request = [](AgentId agent, test::Header header) {
    return to(Lid{2}, agent, test::datagram(header), milliseconds(9));
  };
  ASSERT_TRUE(pair.post(0, request(asker, {})));
  EXPECT_EQ(pair.post(0, request(asker, {})).error(), Errc::kInvalidArgument);
  EXPECT_EQ(pair.post(0, request(asker, {.transaction = 0x9'0000'0011})).error(),
            Errc::kInvalidArgument);
  EXPECT_TRUE(pair.post(0, request(asker, {.transaction = 0x12})));
  EXPECT_TRUE(pair.post(0, request(asker, {.mgmt_class = MgmtClass::kCommunication})));
  EXPECT_TRUE(pair.post(0, request(second, {})));
  pair.run();
  EXPECT_TRUE(pair.post(0, request(asker, {})));  // it has failed meanwhile
}

TEST(MadPort, ADatagramThatExpectsNoAnswerIsSentOnceAndForgotten) {
  PairOfPorts pair(kLost);
  const AgentId asker = pair.agent(0, {});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pair.post(0, to(Lid{2}, asker, test::datagram({}), milliseconds(0), 5)));
  }
  EXPECT_FALSE(pair.next(0));
  EXPECT_EQ(pair.carried(), 3);
  EXPECT_EQ(pair.port(0).outstanding_count(), 0);
}

TEST(MadPort, AnAnswerKeepsItsTransactionWhole) {
  PairOfPorts pair;
  const AgentId answerer = pair.agent(0, {});
  ASSERT_TRUE(pair.post(
      0, to(Lid{2}, answerer,
            test::datagram({.method = MadMethod::kGetResp, .transaction = 0xabcd'0000'0001}))));
  const auto packet = pair.port(0).poll_transmit({});
  ASSERT_TRUE(packet);
  EXPECT_EQ(test::view_of(*packet).transaction(), wire::TransactionId{0xabcd'0000'0001});
}

TEST(MadPort, TheRepressionOfATrapEndsTheTrapThatAnAgentSends) {
  PairOfPorts pair;
  const AgentId sender = pair.agent(0, {});
  (void)pair.agent(1, claim(MgmtClass::kPerformance, {5}));
  ASSERT_TRUE(pair.post(
      0, to(Lid{2}, sender, test::datagram({.method = MadMethod::kTrap}), milliseconds(9))));
  const auto trap = pair.next(1);
  ASSERT_TRUE(trap);
  UserMad repress = answer_to(trap->mad);
  repress.octets[3] = std::byte{7};
  ASSERT_TRUE(pair.post(1, repress));
  const auto answer = pair.next(0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->mad.status, 0);
}

TEST(MadPort, UnclaimedRequestsAndAnswersAreTheCallersBusiness) {
  PairOfPorts pair;
  ManagementPacket packet{.source = Lid{1}, .dest_qp = wire::QpNumber::kGsi};
  const auto give = [&](const test::Octets& octets) {
    std::ranges::copy(octets, packet.mad.begin());
    return pair.port(1).handle_packet({}, packet);
  };
  EXPECT_EQ(give(test::datagram({})), MadVerdict::kUnclaimed);
  EXPECT_EQ(give(test::datagram({.method = MadMethod::kGetResp})), MadVerdict::kUnclaimed);
  EXPECT_EQ(give(test::Octets(256)), MadVerdict::kMalformed);
  (void)pair.agent(1, claim(MgmtClass::kPerformance, {1}));
  EXPECT_EQ(give(test::datagram({})), MadVerdict::kDelivered);
  packet.pkey = wire::PKey{0x1234};
  EXPECT_EQ(give(test::datagram({})), MadVerdict::kBadPKey);
}

TEST(MadPort, AnAgentOfTheSubnetSendsFromQueuePairZeroAndAsksForNoPartition) {
  PairOfPorts pair;
  const AgentId agent = pair.agent(0, claim(MgmtClass::kSubnetDirectedRoute, {}));
  UserMad mad =
      to(Lid::kPermissive, agent, test::datagram({.mgmt_class = MgmtClass::kSubnetDirectedRoute}),
         milliseconds(9));
  mad.address.qpn = wire::QpNumber::kSmi;
  mad.pkey_index = 99;
  ASSERT_TRUE(pair.post(0, mad));
  const auto packet = pair.port(0).poll_transmit({});
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->source_qp, wire::QpNumber::kSmi);
  EXPECT_EQ(packet->dest_qp, wire::QpNumber::kSmi);
  EXPECT_EQ(packet->source, Lid::kPermissive);
  EXPECT_EQ(packet->pkey, wire::PKey::kDefault);
  EXPECT_EQ(packet->qkey, wire::QKey{});
}

TEST(MadPort, AddressesPacketsByTheIdentityOfThePort) {
  MadPort port;
  const wire::Gid own{.octets = {0xfe, 0x80, 1}};
  const wire::Gid far{.octets = {0xfe, 0x80, 2}};
  port.set_identity({.base_lid = Lid{0x20},
                     .lmc = 2,
                     .pkeys = {wire::PKey::kDefault, wire::PKey{0x8001}},
                     .gids = {wire::Gid{}, own}});
  const AgentId agent = port.register_agent(kClient, {}).value();
  UserMad mad = to(Lid{9}, agent, test::datagram({}), milliseconds(9));
  mad.pkey_index = 1;
  mad.address.level = wire::ServiceLevel{3};
  mad.address.path_bits = 0x0f;
  mad.address.has_grh = true;
  mad.address.gid_index = 1;
  mad.address.gid = far;
  mad.address.hop_limit = 5;
  mad.address.traffic_class = 6;
  mad.address.flow_label = 7;
  ASSERT_TRUE(port.post_send({}, kClient, mad));
  const auto packet = port.poll_transmit({});
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->source, Lid{0x23});
  EXPECT_EQ(packet->destination, Lid{9});
  EXPECT_EQ(packet->level, wire::ServiceLevel{3});
  EXPECT_EQ(packet->pkey, wire::PKey{0x8001});
  EXPECT_EQ(packet->qkey, wire::QKey::kGsi);
  EXPECT_EQ(
      packet->global_route,
      (GlobalRoute{
          .source = own, .destination = far, .flow_label = 7, .traffic_class = 6, .hop_limit = 5}));
  mad.pkey_index = 2;
  EXPECT_EQ(port.post_send({}, kClient, mad).error(), Errc::kInvalidArgument);
}

TEST(MadPort, TellsTheProgramHowADatagramArrived) {
  MadPort port;
  const wire::Gid own{.octets = {0xfe, 0x80, 1}};
  const wire::Gid far{.octets = {0xfe, 0x80, 2}};
  port.set_identity({.base_lid = Lid{0x20},
                     .lmc = 2,
                     .pkeys = {wire::PKey{0x8001}, wire::PKey{0x7fff}},
                     .gids = {wire::Gid{}, own}});
  (void)port.register_agent(kClient, claim(MgmtClass::kPerformance, {1}));
  ManagementPacket packet{
      .source = Lid{9},
      .destination = Lid{0x22},
      .level = wire::ServiceLevel{4},
      .source_qp = wire::QpNumber{77},
      .dest_qp = wire::QpNumber::kGsi,
      .global_route = GlobalRoute{
          .source = far, .destination = own, .flow_label = 7, .traffic_class = 6, .hop_limit = 5}};
  std::ranges::copy(test::datagram({}), packet.mad.begin());
  ASSERT_EQ(port.handle_packet({}, packet), MadVerdict::kDelivered);
  const auto delivery = port.poll_delivery();
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->mad.pkey_index, 1);
  EXPECT_EQ(delivery->mad.address, (MadAddress{.lid = Lid{9},
                                               .qpn = wire::QpNumber{77},
                                               .level = wire::ServiceLevel{4},
                                               .path_bits = 2,
                                               .has_grh = true,
                                               .gid_index = 1,
                                               .hop_limit = 5,
                                               .traffic_class = 6,
                                               .flow_label = 7,
                                               .gid = far}));
}

TEST(MadPort, RefusesWhatIsNoDatagram) {
  PairOfPorts pair;
  const AgentId agent = pair.agent(0, {});
  const auto post = [&](std::size_t octets) {
    test::Octets mad = test::datagram({});
    mad.resize(octets);
    return pair.post(0, to(Lid{2}, agent, mad));
  };
  EXPECT_EQ(post(0).error(), Errc::kInvalidArgument);
  EXPECT_EQ(post(35).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(post(36));
  EXPECT_TRUE(post(256));
  EXPECT_EQ(post(257).error(), Errc::kInvalidArgument);
  EXPECT_EQ(pair.post(0, to(Lid{2}, agent, test::Octets(256))).error(), Errc::kInvalidArgument);
  EXPECT_EQ(pair.post(0, to(Lid{2}, AgentId{5}, test::datagram({}))).error(), Errc::kNoSuchObject);
  EXPECT_EQ(pair.post(0, to(Lid{2}, AgentId{999}, test::datagram({}))).error(),
            Errc::kNoSuchObject);
  EXPECT_EQ(pair.post(0, to(Lid{2}, agent, test::datagram({})), kOther).error(),
            Errc::kNoSuchObject);
}

TEST(MadPort, AnAgentWithSegmentsSendsNoClassWithoutThem) {
  PairOfPorts pair;
  const AgentId agent = pair.agent(0, claim(MgmtClass::kSubnetAdministration, {}, RmppMode::kPort));
  EXPECT_TRUE(pair.post(
      0, to(Lid{2}, agent, test::datagram({.mgmt_class = MgmtClass::kSubnetAdministration}))));
  EXPECT_EQ(pair.post(0, to(Lid{2}, agent, test::datagram({}))).error(), Errc::kInvalidArgument);
}

TEST(MadPort, SaysWithoutSendingWhetherItWouldSend) {
  PairOfPorts pair(kLost);
  const AgentId agent = pair.agent(0, {});
  const UserMad request = to(Lid{2}, agent, test::datagram({}), milliseconds(9));
  const auto may_send = [&](const UserMad& mad, std::size_t octets) {
    return pair.port(0).may_send(kClient, mad, octets);
  };
  EXPECT_TRUE(may_send(request, 256));
  EXPECT_TRUE(may_send(request, 256));  // the first time has left nothing
  EXPECT_EQ(may_send(request, 257).error(), Errc::kInvalidArgument);
  EXPECT_EQ(pair.port(0).outstanding_count(), 0);
  ASSERT_TRUE(pair.post(0, request));
  EXPECT_EQ(may_send(request, 256).error(), Errc::kInvalidArgument);
  pair.run();
  EXPECT_TRUE(may_send(request, 256));
}

TEST(MadPort, AShortDatagramIsFilledUpWithZeroes) {
  PairOfPorts pair;
  test::Octets mad = test::datagram({});
  mad.resize(40, std::byte{0xff});
  ASSERT_TRUE(pair.post(0, to(Lid{2}, pair.agent(0, {}), mad)));
  const auto packet = pair.port(0).poll_transmit({});
  ASSERT_TRUE(packet);
  EXPECT_EQ(std::ranges::count(std::span(packet->mad).subspan(40), std::byte{0}), 216);
}

TEST(MadPort, TheRequestsOfAClosedClientEndAndItsClassesAreFree) {
  PairOfPorts pair(kLost);
  const AgentId asker = pair.agent(0, claim(MgmtClass::kPerformance, {1}));
  ASSERT_TRUE(pair.post(0, to(Lid{2}, asker, test::datagram({}), milliseconds(9), 3)));
  pair.port(0).close_client(kClient);
  EXPECT_EQ(pair.port(0).outstanding_count(), 0);
  EXPECT_FALSE(pair.next(0));
  EXPECT_EQ(pair.carried(), 0);
  EXPECT_TRUE(pair.port(0).register_agent(kOther, claim(MgmtClass::kPerformance, {1})));
}

TEST(MadPort, AnAnswerToAnAgentThatIsGoneFindsNoOtherOne) {
  PairOfPorts pair;
  const AgentId asker = pair.agent(0, {});
  (void)pair.agent(1, claim(MgmtClass::kPerformance, {1}));
  ASSERT_TRUE(pair.post(0, to(Lid{2}, asker, test::datagram({}), milliseconds(9))));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  ASSERT_TRUE(pair.port(0).unregister_agent(kClient, asker));
  EXPECT_EQ(pair.port(0).unregister_agent(kClient, asker).error(), Errc::kNoSuchObject);
  ASSERT_EQ(pair.agent(0, {}), asker);
  ASSERT_TRUE(pair.post(1, answer_to(request->mad)));
  EXPECT_FALSE(pair.next(0));
}

TEST(MadPort, ManyRequestsOverABadPipeAreAllAnsweredOrComeBack) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    PairOfPorts pair({.loss_per_mille = 100, .copies_per_mille = 50, .jitter = milliseconds(20)},
                     seed);
    const AgentId asker = pair.agent(0, {});
    (void)pair.agent(1, claim(MgmtClass::kPerformance, {1}));
    constexpr int kRequests = 200;
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(pair.post(
          0, to(Lid{2}, asker, test::datagram({.transaction = i}), milliseconds(100), 8)));
    }
    while (const auto request = pair.next(1)) ASSERT_TRUE(pair.post(1, answer_to(request->mad)));
    int answered = 0;
    int failed = 0;
    while (const auto delivery = pair.next(0)) ++(delivery->mad.status == 0 ? answered : failed);
    EXPECT_EQ(answered + failed, kRequests);
    EXPECT_EQ(failed, 0);  // 19 % lost nine times in a row
    EXPECT_EQ(pair.port(0).outstanding_count(), 0);
  }
}

TEST(MadPort, HandlesManyTimeoutsInSeveralCalls) {
  MadPort port;
  const AgentId agent = port.register_agent(kClient, {}).value();
  for (std::uint64_t i = 0; i < MadPort::kTimeoutsAtOnce + 1; ++i) {
    const auto octets = test::datagram({.transaction = i});
    ASSERT_TRUE(port.post_send({}, kClient, to(Lid{2}, agent, octets, milliseconds(1))));
  }
  while (port.poll_transmit({})) continue;
  const Instant late = Instant::at(milliseconds(9));
  port.handle_timeout(late);
  EXPECT_EQ(port.outstanding_count(), 1);
  ASSERT_TRUE(port.next_timeout());
  EXPECT_LE(*port.next_timeout(), late);
  port.handle_timeout(late);
  EXPECT_EQ(port.outstanding_count(), 0);
}

TEST(MadPort, HasRoomForALimitedNumberOfRequests) {
  MadPort port;
  port.set_identity({.base_lid = Lid{1}});
  const AgentId agent = port.register_agent(kClient, {}).value();
  const auto post = [&](std::uint64_t transaction) {
    return port.post_send(
        {}, kClient,
        to(Lid{2}, agent, test::datagram({.transaction = transaction}), milliseconds(9)));
  };
  for (std::uint64_t i = 0; i < MadPort::kOutstandingMax; ++i) ASSERT_TRUE(post(i));
  EXPECT_EQ(post(MadPort::kOutstandingMax).error(), Errc::kNoMemory);
  while (port.poll_transmit({})) continue;
  EXPECT_EQ(post(MadPort::kOutstandingMax).error(), Errc::kNoMemory);
  port.handle_timeout(Instant::at(milliseconds(9)));
  EXPECT_TRUE(post(0));
}

}  // namespace
}  // namespace verbatim::fabric
