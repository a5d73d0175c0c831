// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "connect/test_host.h"
#include "wire/cm/ip_cm_header.h"

namespace verbatim::connect {
namespace {

using namespace test;

const std::array<std::byte, 3> kWord{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};

TEST(IdConnecting, TwoEndsConnectAndDisconnect) {
  TwoHosts hosts;
  FakePair listens, asks, answers;
  const auto listener = hosts.listener(listens);
  const auto client = hosts.resolved(asks);
  ASSERT_TRUE(client->connect(TwoHosts::parameters(kWord)));
  EXPECT_EQ(client->state(), IdState::kConnecting);
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->state(), IdState::kRequested);
  // Both see each other's addresses, and what one offers the other may use.
  EXPECT_EQ(server->ends().destination.address, gid(1));
  EXPECT_EQ(server->ends().source.port, TwoHosts::kPort);
  EXPECT_EQ(server->ends().destination.port, client->ends().source.port);
  EXPECT_EQ(server->terms().responder_resources, 3);
  EXPECT_EQ(server->terms().initiator_depth, 4);

  ASSERT_TRUE(server->accept(TwoHosts::parameters()));
  EXPECT_EQ(answers.readied, 1);
  EXPECT_EQ(answers.last_depths.responder_resources, 4);
  EXPECT_NE(answers.awaited, wire::CommId{});
  hosts.deliver();
  EXPECT_EQ(client->state(), IdState::kConnecting);  // the program has not seen the event yet
  hosts.client.expect(EventKind::kEstablished);
  EXPECT_EQ(client->state(), IdState::kConnected);
  EXPECT_EQ(asks.readied, 1);
  ASSERT_TRUE(client->terms().settings);
  EXPECT_EQ(client->terms().settings->remote_qpn, wire::QpNumber{0x11});
  hosts.deliver();
  hosts.server.expect(EventKind::kEstablished);
  EXPECT_EQ(server->state(), IdState::kConnected);

  ASSERT_TRUE(client->disconnect());
  EXPECT_EQ(asks.errors, 1);
  hosts.deliver();
  const auto gone = hosts.server.expect(EventKind::kDisconnected);
  EXPECT_FALSE(gone->error);
  hosts.client.expect(EventKind::kDisconnected);
  EXPECT_EQ(client->state(), IdState::kDisconnected);
}

TEST(IdConnecting, TheRequestCarriesThePrivateDataBehindTheAddresses) {
  TwoHosts hosts;
  FakePair pair;
  const auto listener = hosts.listener(pair);
  const auto client = hosts.resolved(pair);
  ASSERT_TRUE(client->connect(TwoHosts::parameters(kWord)));
  hosts.deliver();
  const auto event = hosts.server.expect(EventKind::kRequest);
  ASSERT_TRUE(event->cause);
  EXPECT_EQ(event->counted, listener.get());
  const auto data = event->cause->private_data().subspan(wire::IpCmHeader::kSize);
  EXPECT_TRUE(std::equal(kWord.begin(), kWord.end(), data.begin()));
}

TEST(IdConnecting, PrivateDataThatDoesNotFitIsRefusedAndNothingIsSent) {
  TwoHosts hosts;
  FakePair pair;
  const auto client = hosts.resolved(pair);
  const std::array<std::byte, 57> too_long{};  // 92 less the header leaves 56
  EXPECT_EQ(client->connect(TwoHosts::parameters(too_long)).error(), Error::kInvalidArgument);
  EXPECT_EQ(client->state(), IdState::kRouteResolved);
  EXPECT_TRUE(hosts.network.on_the_way.empty());
  EXPECT_TRUE(client->connect(TwoHosts::parameters(std::span(too_long).first(56))));
}

TEST(IdConnecting, AQueuePairOfAnotherProcessIsNotNamed) {
  TwoHosts hosts;
  FakePair pair;
  const auto listener = hosts.listener(pair);
  const auto client = hosts.resolved(pair);
  auto parameters = TwoHosts::parameters();
  parameters.qpn = wire::QpNumber{0x999};
  EXPECT_EQ(client->connect(parameters).error(), Error::kInvalidArgument);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(pair);
  EXPECT_EQ(server->accept(parameters).error(), Error::kInvalidArgument);
  EXPECT_EQ(pair.readied, 0);
}

TEST(IdConnecting, WhatTheStateDoesNotAllowIsRefused) {
  TwoHosts hosts;
  FakePair pair;
  const auto id = hosts.client.make_id(pair);
  EXPECT_EQ(id->connect(TwoHosts::parameters()).error(), Error::kInvalidArgument);
  EXPECT_EQ(id->accept(TwoHosts::parameters()).error(), Error::kInvalidArgument);
  EXPECT_EQ(id->resolve_route().error(), Error::kInvalidArgument);
  EXPECT_EQ(id->reject(wire::RejectReason::kConsumer, {}).error(), Error::kInvalidArgument);
  EXPECT_EQ(id->establish().error(), Error::kInvalidArgument);
  EXPECT_EQ(id->disconnect().error(), Error::kInvalidArgument);
  EXPECT_EQ(id->note_first_data().error(), Error::kInvalidArgument);
  ASSERT_TRUE(id->bind(endpoint(1, 5)));
  EXPECT_EQ(id->bind(endpoint(1, 6)).error(), Error::kInvalidArgument);
  ASSERT_TRUE(id->listen(1));
  EXPECT_EQ(id->resolve_address({}, endpoint(2, 5), 1s).error(), Error::kInvalidArgument);
}

TEST(IdConnecting, ARejectionSaysWhy) {
  TwoHosts hosts;
  FakePair pair, other;
  const auto listener = hosts.listener(other);
  const auto client = hosts.resolved(pair);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(other);
  ASSERT_TRUE(server->reject(wire::RejectReason::kVendorOption, kWord));
  hosts.deliver();
  const auto event = hosts.client.expect(EventKind::kRejected);
  EXPECT_EQ(event->number, static_cast<std::uint16_t>(wire::RejectReason::kVendorOption));
  EXPECT_TRUE(std::equal(kWord.begin(), kWord.end(), event->cause->private_data().begin()));
  EXPECT_EQ(pair.errors, 1);
  EXPECT_EQ(client->state(), IdState::kDisconnected);
}

TEST(IdConnecting, APairThatCannotBecomeReadyFailsTheConnectionOnce) {
  TwoHosts hosts;
  FakePair asks, answers;
  const auto listener = hosts.listener(answers);
  const auto client = hosts.resolved(asks);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_TRUE(server->accept(TwoHosts::parameters()));
  hosts.deliver();
  asks.refusal = Error::kNoMemory;
  const auto event = hosts.client.expect(EventKind::kConnectFailed);
  EXPECT_EQ(event->error, Error::kNoMemory);
  EXPECT_EQ(asks.errors, 1);
  hosts.deliver();
  hosts.server.expect(EventKind::kRejected);
  EXPECT_EQ(hosts.client.next_event(), nullptr);  // what follows from it is not news
}

TEST(IdConnecting, AProgramWithItsOwnPairEstablishesItself) {
  TwoHosts hosts;
  FakePair asks, answers;
  asks.exists = answers.exists = false;
  const auto listener = hosts.listener(answers);
  const auto client = hosts.resolved(asks);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_TRUE(server->accept(TwoHosts::parameters()));
  EXPECT_EQ(answers.awaited, wire::CommId{});
  hosts.deliver();
  hosts.client.expect(EventKind::kReply);
  EXPECT_EQ(asks.readied, 0);
  ASSERT_TRUE(client->establish());
  EXPECT_EQ(client->state(), IdState::kConnected);
  hosts.lose_all();
  // The message that says so got lost, and data came.
  ASSERT_TRUE(server->note_first_data());
  hosts.server.expect(EventKind::kEstablished);
}

TEST(IdConnecting, DatagramEndsGetTheNumberOfTheQueuePair) {
  TwoHosts hosts;
  FakePair asks, answers;
  const auto listener = hosts.listener(answers, wire::PortSpace::kUdp);
  const auto client = hosts.resolved(asks, wire::PortSpace::kUdp);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_TRUE(server->accept(TwoHosts::parameters()));
  hosts.deliver();
  const auto event = hosts.client.expect(EventKind::kEstablished);
  const auto* reply = event->cause->as<wire::CmSidrRep>();
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->qpn, wire::QpNumber{0x11});
  EXPECT_EQ(reply->qkey, kDatagramQKey);
  EXPECT_EQ(client->disconnect().error(), Error::kInvalidArgument);
}

TEST(IdConnecting, ADatagramEndThatIsRejectedIsUnreachable) {
  TwoHosts hosts;
  FakePair asks, answers;
  const auto listener = hosts.listener(answers, wire::PortSpace::kUdp);
  const auto client = hosts.resolved(asks, wire::PortSpace::kUdp);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_TRUE(server->reject(wire::RejectReason::kConsumer, {}));
  hosts.deliver();
  const auto event = hosts.client.expect(EventKind::kUnreachable);
  EXPECT_EQ(event->number, static_cast<std::uint16_t>(wire::SidrStatus::kRejected));
  EXPECT_FALSE(event->error);
}

TEST(IdConnecting, APeerThatNeverAnswersIsUnreachable) {
  TwoHosts hosts;
  FakePair pair;
  const auto client = hosts.resolved(pair);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  std::unique_ptr<Event> event;
  for (int tries = 0; tries < 64 && event == nullptr; ++tries) {
    hosts.lose_all();
    hosts.pass_time(5min);
    event = hosts.client.next_event();
  }
  ASSERT_NE(event, nullptr);
  EXPECT_EQ(event->kind, EventKind::kUnreachable);
  EXPECT_EQ(event->error, Error::kTimedOut);
}

TEST(IdConnecting, AListenerThatEndsRefusesTheRequestsInItsQueue) {
  TwoHosts hosts;
  FakePair pair;
  auto listener = hosts.listener(pair);
  const auto client = hosts.resolved(pair);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  listener.reset();  // the program has not seen the request
  EXPECT_EQ(hosts.server.next_event(), nullptr);
  hosts.deliver();
  hosts.client.expect(EventKind::kRejected);
  EXPECT_TRUE(hosts.server.services().claims.empty());
}

TEST(IdConnecting, AnIdThatEndsTellsItsPeerAndHearsNothingMore) {
  TwoHosts hosts;
  FakePair asks, answers;
  const auto listener = hosts.listener(answers);
  auto client = hosts.resolved(asks);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  const auto server = hosts.requested(answers);
  ASSERT_TRUE(server->accept(TwoHosts::parameters()));
  hosts.deliver();
  hosts.client.expect(EventKind::kEstablished);
  hosts.deliver();
  hosts.server.expect(EventKind::kEstablished);
  client.reset();
  hosts.deliver();
  hosts.server.expect(EventKind::kDisconnected);
  EXPECT_EQ(hosts.client.next_event(), nullptr);
  EXPECT_EQ(hosts.client.given_ports, 0);
}

TEST(IdConnecting, EndingWaitsForTheAcknowledgementOfEventsThatWereGiven) {
  TwoHosts hosts;
  FakePair pair;
  auto id = hosts.client.make_id(pair);
  id->post({.kind = 1});
  const auto event = Id::take_event(hosts.client.queue, [](Event&) {});
  ASSERT_NE(event, nullptr);
  std::atomic<bool> is_acknowledged{false};
  bool was_acknowledged = false;
  std::thread ends([&] {
    id.reset();
    was_acknowledged = is_acknowledged;
  });
  is_acknowledged = true;
  Id::acknowledge(*event);
  ends.join();
  EXPECT_TRUE(was_acknowledged);
}

TEST(IdConnecting, TheIdOfARequestMovesWithTheRequest) {
  TwoHosts hosts;
  FakePair pair;
  EventQueue other;
  ASSERT_TRUE(other.open());
  const auto listener = hosts.listener(pair);
  auto client = hosts.resolved(pair);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  client.reset();  // and the request is taken back
  hosts.deliver();
  listener->move_to(other);
  EXPECT_EQ(hosts.server.next_event(), nullptr);
  auto request = FakeHost::next_event(other);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->kind, EventKind::kRequest);
  const auto later = FakeHost::next_event(other);
  ASSERT_NE(later, nullptr);
  EXPECT_EQ(later->id, request->id);
}

TEST(IdConnecting, EventsOfTheBorderComeInOrder) {
  TwoHosts hosts;
  FakePair pair;
  const auto id = hosts.client.make_id(pair);
  id->post({.kind = 18, .status = -5, .argument = 77});
  ASSERT_TRUE(id->bind(endpoint(1)));
  const auto event = hosts.client.expect(EventKind::kOfBorder);
  EXPECT_EQ(event->of_border.kind, 18);
  EXPECT_EQ(event->of_border.status, -5);
  EXPECT_EQ(event->of_border.argument, 77U);
}

}  // namespace
}  // namespace verbatim::connect
