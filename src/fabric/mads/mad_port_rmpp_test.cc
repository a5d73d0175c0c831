// SPDX-License-Identifier: Apache-2.0
// Messages of several segments between two ports.
#include <gtest/gtest.h>

#include "fabric/mads/mad_port.h"
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
using wire::MgmtClass;
using wire::RmppStatus;
using wire::RmppType;

constexpr auto kSa = MgmtClass::kSubnetAdministration;
constexpr auto kBad = test::PipeFaults{
    .loss_per_mille = 100, .copies_per_mille = 50, .jitter = std::chrono::microseconds(50)};

Registration asking(MgmtClass mgmt_class = kSa) { return claim(mgmt_class, {}, RmppMode::kPort); }
Registration answering(MgmtClass mgmt_class = kSa) {
  return claim(mgmt_class, {0x01, 0x12, 0x14}, RmppMode::kPort);
}
/// The answer with these data to a request that a program got.
UserMad answer_with(const UserMad& request, std::size_t data_octets, MgmtClass mgmt_class = kSa) {
  UserMad answer{.agent = request.agent, .retries = 8, .address = request.address};
  answer.octets = test::message({.mgmt_class = mgmt_class,
                                 .method = test::kGetTableResp,
                                 .transaction = transaction_of(request)},
                                data_octets);
  return answer;
}
void expect_data(const UserMad& mad, std::size_t data_octets) {
  const auto expected = test::message({}, 0);
  const auto data = test::data_of(mad);
  ASSERT_EQ(data.size(), data_octets);
  const auto mgmt_class = wire::MgmtClass{std::to_integer<std::uint8_t>(mad.octets[1])};
  const auto sent = test::message({.mgmt_class = mgmt_class}, data_octets);
  EXPECT_TRUE(std::equal(data.begin(), data.end(),
                         sent.begin() + static_cast<std::ptrdiff_t>(sent.size() - data_octets)));
}

/// Asks port 1 with one datagram; the answer has this many octets of data.
void ask(PairOfPorts& pair, std::size_t data_octets, MgmtClass mgmt_class = kSa) {
  const AgentId asker = pair.agent(0, asking(mgmt_class));
  (void)pair.agent(1, answering(mgmt_class));
  ASSERT_TRUE(pair.post(
      0, to(Lid{2}, asker, test::datagram({.mgmt_class = mgmt_class, .method = test::kGetTable}),
            milliseconds(500), 8)));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  ASSERT_TRUE(pair.post(1, answer_with(request->mad, data_octets, mgmt_class)));
  const auto answer = pair.next(0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->mad.status, 0);
  EXPECT_EQ(answer->mad.agent, asker);
  expect_data(answer->mad, data_octets);
  pair.run();
  EXPECT_EQ(pair.port(0).outstanding_count(), 0);
  EXPECT_EQ(pair.port(1).outstanding_count(), 0);
  EXPECT_EQ(pair.port(1).counters().unanswered, 0);
}

TEST(MadPortRmpp, AnswersOfAllLengthsArriveWhole) {
  constexpr std::size_t kLengths[] = {0, 1, 199, 200, 201, 400, 12'999, 13'000, 13'001, 1'000'000};
  for (const std::size_t octets : kLengths) {
    SCOPED_TRACE(octets);
    PairOfPorts sa;
    ask(sa, octets);
    PairOfPorts vendor;
    ask(vendor, octets, test::kVendor);
  }
}

TEST(MadPortRmpp, AnswersArriveWholeOverABadPipe) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    PairOfPorts pair({.jitter = std::chrono::microseconds(50)}, seed);
    const AgentId asker = pair.agent(0, asking());
    (void)pair.agent(1, answering());
    ASSERT_TRUE(pair.post(
        0, to(Lid{2}, asker, test::datagram({.mgmt_class = kSa, .method = test::kGetTable}),
              milliseconds(500), 8)));
    const auto request = pair.next(1);
    ASSERT_TRUE(request);
    pair.set_faults(kBad);
    const std::size_t octets = seed * 3571;
    ASSERT_TRUE(pair.post(1, answer_with(request->mad, octets)));
    const auto answer = pair.next(0);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->mad.status, 0);
    expect_data(answer->mad, octets);
  }
}

TEST(MadPortRmpp, AMessageOfSeveralMegabytesArrivesOverABadPipe) {
  PairOfPorts pair(kBad);
  (void)pair.agent(1, answering());
  constexpr std::size_t kOctets = 3'000'017;
  UserMad request = to(Lid{2}, pair.agent(0, asking()),
                       test::message({.mgmt_class = kSa, .method = test::kGetMulti}, kOctets),
                       milliseconds(0), 8);
  ASSERT_TRUE(pair.post(0, request));
  const auto message = pair.next(1);
  ASSERT_TRUE(message);
  expect_data(message->mad, kOctets);
}

TEST(MadPortRmpp, ARequestOfManySegmentsGetsAnAnswerOfMany) {
  PairOfPorts pair(kBad);
  const AgentId asker = pair.agent(0, asking());
  (void)pair.agent(1, answering());
  ASSERT_TRUE(pair.post(
      0, to(Lid{2}, asker, test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 50'000),
            milliseconds(800), 8)));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  expect_data(request->mad, 50'000);
  ASSERT_TRUE(pair.post(1, answer_with(request->mad, 70'000)));
  const auto answer = pair.next(0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->mad.status, 0);
  expect_data(answer->mad, 70'000);
}

TEST(MadPortRmpp, AnAnswerMayTakeLongerThanItsFirstSegment) {
  // 5,000 segments in 79 windows, each of which takes a delay of 2 * 10 ms.
  PairOfPorts pair({.delay = milliseconds(10)});
  const AgentId asker = pair.agent(0, asking());
  (void)pair.agent(1, answering());
  ASSERT_TRUE(
      pair.post(0, to(Lid{2}, asker, test::datagram({.mgmt_class = kSa, .method = test::kGetTable}),
                      milliseconds(100), 0)));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  ASSERT_TRUE(pair.post(1, answer_with(request->mad, 1'000'000)));
  const auto answer = pair.next(0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->mad.status, 0);
  EXPECT_GT(pair.now().since_start(), std::chrono::seconds(1));
}

TEST(MadPortRmpp, TheAskingProgramLearnsThatAnAnswerStopsComing) {
  PairOfPorts pair;
  const AgentId asker = pair.agent(0, asking());
  (void)pair.agent(1, answering());
  ASSERT_TRUE(
      pair.post(0, to(Lid{2}, asker, test::datagram({.mgmt_class = kSa, .method = test::kGetTable}),
                      milliseconds(100), 0)));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  ASSERT_TRUE(pair.post(1, answer_with(request->mad, 1'000'000)));
  ASSERT_FALSE(pair.next(1, std::chrono::microseconds(40)));
  pair.set_faults({.loss_per_mille = 1000});
  const auto failure = pair.next(0);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->mad.status, UserMad::kTimedOut);
  const auto given_up = pair.next(1);  // as Linux tells the answering program
  ASSERT_TRUE(given_up);
  EXPECT_EQ(given_up->mad.status, UserMad::kTimedOut);
  EXPECT_EQ(given_up->mad.octets.size(), UserMad::kUnansweredOctets);
}

TEST(MadPortRmpp, TwoAnswersWithOneTransactionGoToTwoPorts) {
  PairOfPorts pair;
  const AgentId answerer = pair.agent(0, answering());
  UserMad answer =
      to(Lid{2}, answerer, test::message({.mgmt_class = kSa, .method = test::kGetTableResp}, 900));
  ASSERT_TRUE(pair.post(0, answer));
  EXPECT_EQ(pair.post(0, answer).error(), Errc::kInvalidArgument);
  answer.address.lid = Lid{3};
  EXPECT_TRUE(pair.post(0, answer));
  EXPECT_EQ(pair.port(0).outstanding_count(), 2);
}

TEST(MadPortRmpp, AnAgentWithItsOwnRmppGetsSegments) {
  PairOfPorts pair;
  (void)pair.agent(1, claim(kSa, {0x14}, RmppMode::kUser));
  UserMad request =
      to(Lid{2}, pair.agent(0, asking()),
         test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 900), milliseconds(0), 1);
  ASSERT_TRUE(pair.post(0, request));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto segment = pair.next(1);
    ASSERT_TRUE(segment);
    EXPECT_EQ(segment->mad.octets.size(), wire::Mad::kSize);
    EXPECT_TRUE(wire::RmppView(std::span<const std::byte, 256>(segment->mad.octets)).is_first());
  }
  EXPECT_FALSE(pair.next(1));
  EXPECT_EQ(pair.port(0).counters().unanswered, 1);
}

TEST(MadPortRmpp, AnAgentWithItsOwnRmppSendsSegmentsOfOneTransaction) {
  PairOfPorts pair;
  const AgentId sender = pair.agent(0, claim(kSa, {}, RmppMode::kUser));
  test::Octets segment = test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 200);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(pair.post(0, to(Lid{2}, sender, segment, milliseconds(9))));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pair.port(0).poll_transmit({}));
  EXPECT_FALSE(pair.port(0).poll_transmit({}));
}

TEST(MadPortRmpp, ADatagramOfTheClassThatIsNoMessageTravelsAlone) {
  PairOfPorts pair;
  (void)pair.agent(1, answering());
  ASSERT_TRUE(pair.post(0, to(Lid{2}, pair.agent(0, asking()), test::datagram({.mgmt_class = kSa}),
                              milliseconds(9))));
  const auto request = pair.next(1);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->mad.octets.size(), wire::Mad::kSize);
  EXPECT_EQ(pair.carried(), 1);
}

/// A port with a message of ten segments of which the first is sent, and what it is told.
struct HalfSent {
  explicit HalfSent(milliseconds timeout) {
    port.set_identity({.base_lid = Lid{1}});
    const AgentId agent = port.register_agent(kClient, asking()).value();
    EXPECT_TRUE(port.post_send(
        {}, kClient,
        to(Lid{2}, agent, test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 2000),
           timeout, 3)));
    sent = port.poll_transmit({}).value();
  }
  /// A datagram of the receiver.
  void tell(const wire::Rmpp& rmpp, std::uint8_t version = wire::Rmpp::kVersion) {
    ManagementPacket reply = sent;
    std::swap(reply.source, reply.destination);
    std::swap(reply.source_qp, reply.dest_qp);
    reply.mad[3] ^= std::byte{0x80};
    rmpp.emit(reply.mad);
    reply.mad[24] = std::byte{version};
    EXPECT_EQ(port.handle_packet({}, reply), MadVerdict::kSegment);
  }
  /// The RMPP header of the next packet; none if there is none.
  std::optional<wire::Rmpp> next() {
    const auto packet = port.poll_transmit({});
    if (!packet) return std::nullopt;
    return wire::RmppView(packet->mad).value();
  }
  MadPort port;
  ManagementPacket sent;
};

TEST(MadPortRmpp, AMessageThatTheReceiverStopsComesBackToTheProgramThatWaits) {
  for (const wire::Rmpp& end :
       {wire::Rmpp{.type = RmppType::kStop, .status = RmppStatus::kResourcesExhausted},
        wire::Rmpp{.type = RmppType::kAbort, .status = RmppStatus::kTotalTimeTooLong},
        wire::Rmpp{.type = RmppType::kAbort, .status = RmppStatus::kUnspecified}}) {
    HalfSent half(milliseconds(100));
    half.tell(end);
    EXPECT_FALSE(half.next());
    const auto failure = half.port.poll_delivery();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->mad.status, UserMad::kTimedOut);
    EXPECT_EQ(half.port.outstanding_count(), 0);
    HalfSent unheard(milliseconds(0));
    unheard.tell(end);
    EXPECT_FALSE(unheard.port.poll_delivery());
    EXPECT_EQ(unheard.port.outstanding_count(), 0);
  }
}

TEST(MadPortRmpp, ContradictionsOfTheReceiverEndTheMessageWithTheirReason) {
  const auto reason = [](const wire::Rmpp& rmpp, std::uint8_t version = 1) {
    HalfSent half(milliseconds(100));
    half.tell(rmpp, version);
    EXPECT_EQ(half.port.outstanding_count(), 0);
    const auto reply = half.next();
    EXPECT_TRUE(reply && reply->type == RmppType::kAbort);
    return reply ? reply->status : RmppStatus::kNormal;
  };
  using wire::Rmpp;
  EXPECT_EQ(reason({.type = RmppType::kAck, .segment = 1, .extent = 0}),
            RmppStatus::kWindowTooSmall);
  EXPECT_EQ(reason({.type = RmppType::kAck, .segment = 2, .extent = 65}),
            RmppStatus::kSegmentTooBig);
  EXPECT_EQ(reason({.type = RmppType::kAck, .status = RmppStatus::kUnspecified}),
            RmppStatus::kBadStatus);
  EXPECT_EQ(reason({.type = RmppType::kStop, .status = RmppStatus::kUnspecified}),
            RmppStatus::kBadStatus);
  EXPECT_EQ(reason({.type = RmppType::kAbort, .status = RmppStatus::kResourcesExhausted}),
            RmppStatus::kBadStatus);
  EXPECT_EQ(reason({.type = RmppType::kNone}), RmppStatus::kBadType);
  EXPECT_EQ(reason({.type = RmppType{5}}), RmppStatus::kBadType);
  EXPECT_EQ(reason({.type = RmppType::kAck}, 2), RmppStatus::kUnsupportedVersion);
}

TEST(MadPortRmpp, AMessageIsRepeatedFromTheLastAcknowledgedSegment) {
  HalfSent half(milliseconds(0));
  half.tell({.type = RmppType::kAck, .segment = 1, .extent = 5});
  for (std::uint32_t segment = 2; segment <= 5; ++segment) EXPECT_EQ(half.next()->segment, segment);
  half.tell({.type = RmppType::kAck, .segment = 3, .extent = 5});
  half.port.handle_timeout(Instant::at(MadPort::kAckTimeout));
  EXPECT_EQ(half.next()->segment, 4);
}

TEST(MadPortRmpp, AMessageThatIsNeverAcknowledgedIsGivenUp) {
  HalfSent half(milliseconds(0));
  Instant now{};
  int sent = 1;
  while (const auto due = half.port.next_timeout()) {
    now = *due;
    half.port.handle_timeout(now);
    while (half.port.poll_transmit(now)) ++sent;
  }
  EXPECT_EQ(sent, 4);
  const auto failure = half.port.poll_delivery();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->mad.status, UserMad::kTimedOut);
  EXPECT_EQ(failure->mad.octets.size(), UserMad::kUnansweredOctets);
}

TEST(MadPortRmpp, AReceptionThatStopsIsForgotten) {
  PairOfPorts pair;
  (void)pair.agent(1, answering());
  const AgentId sender = pair.agent(0, asking());
  ASSERT_TRUE(pair.post(
      0, to(Lid{2}, sender, test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 90'000),
            milliseconds(0), 0)));
  ASSERT_FALSE(pair.next(1, std::chrono::microseconds(20)));
  EXPECT_EQ(pair.port(1).reception_count(), 1);
  EXPECT_GT(pair.port(1).held_octets(), 0);
  pair.port(0).close_client(kClient);
  pair.run();
  EXPECT_EQ(pair.port(1).reception_count(), 0);
  EXPECT_EQ(pair.port(1).held_octets(), 0);
}

TEST(MadPortRmpp, SegmentsOfUnknownMessagesAreDroppedAndTakeNoRoom) {
  MadPort port;
  ASSERT_TRUE(port.register_agent(kClient, answering()));
  ManagementPacket packet{
      .source = Lid{2}, .dest_qp = wire::QpNumber::kGsi, .qkey = wire::QKey::kGsi};
  for (std::uint32_t segment = 2; segment < 100; ++segment) {
    const auto octets =
        test::message({.mgmt_class = kSa, .method = test::kGetMulti, .transaction = segment}, 200);
    std::ranges::copy(octets, packet.mad.begin());
    wire::Rmpp{.segment = segment}.emit(packet.mad);
    EXPECT_EQ(port.handle_packet({}, packet), MadVerdict::kUnmatched);
  }
  EXPECT_EQ(port.reception_count(), 0);
  EXPECT_FALSE(port.poll_transmit({}));
}

TEST(MadPortRmpp, MessagesThatNeverEndMakeRoomForOthers) {
  MadPort port;
  ASSERT_TRUE(port.register_agent(kClient, answering()));
  ManagementPacket packet{
      .source = Lid{2}, .dest_qp = wire::QpNumber::kGsi, .qkey = wire::QKey::kGsi};
  for (std::uint64_t i = 0; i < MadPort::kReceptionsMax + 100; ++i) {
    const auto octets =
        test::message({.mgmt_class = kSa, .method = test::kGetMulti, .transaction = i}, 200);
    std::ranges::copy(octets, packet.mad.begin());
    wire::Rmpp{.is_first = true, .segment = 1}.emit(packet.mad);
    const Instant now = Instant::at(std::chrono::microseconds(i));
    EXPECT_EQ(port.handle_packet(now, packet), MadVerdict::kSegment);
    while (port.poll_transmit(now)) continue;
  }
  EXPECT_EQ(port.reception_count(), MadPort::kReceptionsMax);
  RmppSender sender(test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 100));
  sender.emit_next(packet.mad);
  EXPECT_EQ(port.handle_packet(Instant::at(std::chrono::seconds(1)), packet),
            MadVerdict::kDelivered);
}

TEST(MadPortRmpp, MessagesHaveALimitThatSeveralPortsShare) {
  OctetBudget shared(300'000);
  MadPort one(&shared);
  MadPort other(&shared);
  const AgentId agent = one.register_agent(kClient, asking()).value();
  ASSERT_TRUE(other.register_agent(kClient, asking()));
  const auto post = [&](MadPort& port, std::uint64_t transaction) {
    const test::Header header{
        .mgmt_class = kSa, .method = test::kGetMulti, .transaction = transaction};
    return port.post_send({}, kClient, to(Lid{2}, agent, test::message(header, 100'000)));
  };
  EXPECT_TRUE(post(one, 1));
  EXPECT_TRUE(post(one, 2));
  EXPECT_EQ(post(one, 3).error(), Errc::kNoMemory);
  EXPECT_EQ(post(other, 3).error(), Errc::kNoMemory);
  EXPECT_EQ(one.held_octets(), shared.held());
  one.close_client(kClient);
  EXPECT_EQ(shared.held(), 0);
  EXPECT_TRUE(post(other, 3));
}

TEST(MadPortRmpp, AMessageForWhichThereIsNoRoomIsStopped) {
  OctetBudget shared(40'000);
  MadPort port(&shared);
  ASSERT_TRUE(port.register_agent(kClient, answering()));
  RmppSender sender(test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 90'000));
  ManagementPacket packet{
      .source = Lid{2}, .dest_qp = wire::QpNumber::kGsi, .qkey = wire::QKey::kGsi};
  std::optional<wire::Rmpp> reply;
  while (!reply || reply->type == RmppType::kAck) {
    if (reply) {
      ASSERT_TRUE(sender.handle_ack(reply->segment, reply->extent).ok());
    }
    while (sender.has_next()) {
      sender.emit_next(packet.mad);
      (void)port.handle_packet({}, packet);
    }
    reply = wire::RmppView(port.poll_transmit({})->mad).value();
  }
  EXPECT_EQ(reply->type, RmppType::kStop);
  EXPECT_EQ(reply->status, RmppStatus::kResourcesExhausted);
  EXPECT_EQ(shared.held(), 0);
}

TEST(MadPortRmpp, ReceptionsOfAnAgentEndWithIt) {
  PairOfPorts pair;
  const AgentId receiver = pair.agent(1, answering());
  ASSERT_TRUE(pair.post(0, to(Lid{2}, pair.agent(0, asking()),
                              test::message({.mgmt_class = kSa, .method = test::kGetMulti}, 90'000),
                              milliseconds(0), 0)));
  ASSERT_FALSE(pair.next(1, std::chrono::microseconds(20)));
  ASSERT_EQ(pair.port(1).reception_count(), 1);
  ASSERT_TRUE(pair.port(1).unregister_agent(kClient, receiver));
  EXPECT_EQ(pair.port(1).reception_count(), 0);
  EXPECT_EQ(pair.port(1).held_octets(), 0);
}

}  // namespace
}  // namespace verbatim::fabric
