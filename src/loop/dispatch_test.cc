// SPDX-License-Identifier: Apache-2.0
#include "loop/dispatch.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/pointer.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::loop {
namespace {

using wire::Operation;
using wire::Transport;

constexpr std::uint32_t kSlot = 5;

/// A queue pair that remembers what it gets.
struct FakeQp {
  FakeQp& machine() noexcept { return *this; }
  wire::QpNumber number() const noexcept { return own_number; }
  AgendaEntry& agenda_entry() noexcept { return entry; }
  WaitingPackets& waiting_packets() noexcept { return waiting; }
  bool is_datagram() const noexcept { return false; }
  bool takes_packets() const noexcept { return admits; }
  bool is_addressed_by(const transport::Arrival&) const noexcept { return is_addressed; }
  bool lets_wait(const transport::Arrival& arrival, Instant) const {
    return without_receive.contains(text_of(arrival));
  }
  static std::string text_of(const transport::Arrival& arrival) {
    const auto payload = arrival.packet.payload();
    return {pointer_as<const char>(payload.data()), payload.size()};
  }
  wire::CommId awaited() const noexcept { return communication; }
  void set_awaited(wire::CommId id) noexcept { communication = id; }
  std::shared_ptr<int> hold() {
    ++holds;
    return {nullptr, [this](int*) { --holds; }};
  }
  void handle_packet(Instant, const transport::Arrival& arrival) {
    EXPECT_EQ(holds, 1);
    got.push_back(text_of(arrival));
  }
  std::size_t handle_train(const transport::TrainArrival& train) {
    EXPECT_EQ(holds, 1);
    trains.push_back({train.octets.size() / train.packet_octets, train.identification});
    return takes_of_train;
  }
  void handle_memory_fault() noexcept { ++memory_faults; }
  std::optional<transport::KeyViolation> take_key_violation() noexcept {
    return std::exchange(violation, std::nullopt);
  }

  wire::QpNumber own_number{};
  AgendaEntry entry;
  WaitingPackets waiting;
  int holds = 0;
  int memory_faults = 0;
  std::optional<transport::KeyViolation> violation{};
  bool admits = true;
  bool is_addressed = true;
  std::set<std::string> without_receive;  // the payloads of packets that find none
  wire::CommId communication{};
  std::size_t takes_of_train = 0;
  std::vector<std::string> got;
  std::vector<std::pair<std::size_t, std::uint16_t>> trains;  // packets, identification
};

struct FakeOutside {
  PacketCounters& counters() noexcept { return counts; }
  template <typename Work>
  bool guarded(Work&& work) {
    work();
    return !faults;
  }
  void expect_faults() noexcept {}
  void forward(std::uint32_t slot, const link::Incoming& incoming) {
    forwarded.emplace_back(slot, incoming.octets.size());
  }
  bool is_own_address(const wire::Gid& gid) const noexcept { return gid == own; }
  void handle_management(const link::Incoming&, const wire::PacketView&, const wire::IcrcSeed&,
                         ArrivedBy arrived_by) {
    management.push_back(arrived_by);
  }
  void handle_first_data(wire::CommId id) { first_data.push_back(id); }
  void handle_key_violation(transport::KeyViolation violation, const transport::Arrival&) {
    violations.push_back(violation);
  }

  PacketCounters counts;
  bool faults = false;  // the memory is not there
  wire::Gid own{};
  std::vector<std::pair<std::uint32_t, std::size_t>> forwarded;
  std::vector<ArrivedBy> management;
  std::vector<wire::CommId> first_data;
  std::vector<transport::KeyViolation> violations;
};

wire::Gid ipv4(std::uint8_t first, std::uint8_t last) {
  wire::Gid gid;
  gid.octets[10] = gid.octets[11] = 0xff;
  gid.octets[12] = first;
  gid.octets[15] = last;
  return gid;
}
const wire::Gid kPeer = ipv4(10, 1);
const wire::Gid kHere = ipv4(10, 2);
const wire::Gid kGroup = ipv4(239, 9);

/// One packet, or several, and where they have come from.
struct Packet {
  std::vector<std::byte> octets;
  wire::Gid destination = kHere;
  std::size_t segment_octets = 0;

  link::Incoming incoming() const {
    link::Incoming result;
    result.source = kPeer;
    result.destination = destination;
    result.source_port = 4000;
    result.octets = octets;
    result.segment_octets = segment_octets;
    return result;
  }
};

class DispatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    table.open(kSlot, 1);
    dispatch.open(kSlot);
    for (FakeQp* qp : {&one, &two, &three}) qp->own_number = *table.add(*qp);
  }

  static Packet packet_for(wire::QpNumber number, const std::string& payload,
                           Operation operation = Operation::kSendOnly,
                           Transport transport = Transport::kRc,
                           const wire::Gid& destination = kHere, std::uint16_t identification = 0) {
    wire::PacketHeaders headers;
    headers.bth.opcode = wire::opcode_of(transport, operation);
    headers.bth.dest_qp = number;
    headers.deth.source_qp = wire::QpNumber{0x77};
    Packet packet{
        .octets = std::vector<std::byte>(wire::PacketBuilder::octets_for(headers, payload.size())),
        .destination = destination};
    const auto seed = wire::IcrcSeed::roce_v2(kPeer, destination, 4000);
    wire::PacketBuilder builder(packet.octets, headers, payload.size(),
                                {.seed = &seed, .ipv4_identification = identification});
    builder.append(std::as_bytes(std::span(payload)));
    EXPECT_EQ(builder.finish(), packet.octets.size());
    return packet;
  }
  static Packet congestion_notification_for(wire::QpNumber number) {
    wire::PacketHeaders headers;
    headers.bth.opcode = wire::Opcode::kCnp;
    headers.bth.dest_qp = number;
    Packet packet{.octets = std::vector<std::byte>(wire::PacketBuilder::octets_for(headers, 0))};
    const auto seed = wire::IcrcSeed::roce_v2(kPeer, kHere, 4000);
    wire::PacketBuilder builder(packet.octets, headers, 0, {.seed = &seed});
    EXPECT_EQ(builder.finish(), packet.octets.size());
    return packet;
  }
  Packet datagram_for_group(wire::QpNumber sender) {
    const wire::Gid destination = kGroup;
    wire::PacketHeaders headers;
    headers.bth.opcode = wire::opcode_of(Transport::kUd, Operation::kSendOnly);
    headers.bth.dest_qp = wire::QpNumber::kMulticast;
    headers.deth.source_qp = sender;
    Packet packet{.octets = std::vector<std::byte>(wire::PacketBuilder::octets_for(headers, 4)),
                  .destination = destination};
    const auto seed = wire::IcrcSeed::roce_v2(kPeer, destination, 4000);
    wire::PacketBuilder builder(packet.octets, headers, 4, {.seed = &seed});
    builder.append(std::as_bytes(std::span("copy", 4)));
    EXPECT_EQ(builder.finish(), packet.octets.size());
    return packet;
  }
  void handle(const Packet& packet, ArrivedBy arrived_by = ArrivedBy::kLink) {
    dispatch.handle(packet.incoming(), arrived_by, start);
  }
  std::vector<FakeQp*> listed() const { return {agenda.listed().begin(), agenda.listed().end()}; }

  using Payloads = std::vector<std::string>;
  const Instant start = Instant::at(std::chrono::seconds(1));
  QueuePairTable<FakeQp> table;
  MulticastTable<FakeQp> groups;
  Agenda<FakeQp> agenda;
  FakeOutside outside;
  Dispatch<FakeQp, FakeOutside> dispatch{
      {.queue_pairs = table, .groups = groups, .agenda = agenda, .outside = outside}};
  FakeQp one, two, three;
};

TEST_F(DispatchTest, APacketGoesToTheQueuePairThatItNamesWhichIsListedForATurn) {
  handle(packet_for(two.number(), "for two"));
  EXPECT_EQ(two.got, Payloads{"for two"});
  EXPECT_TRUE(one.got.empty() && three.got.empty());
  EXPECT_EQ(listed(), std::vector<FakeQp*>{&two});
}

TEST_F(DispatchTest, AWrongKeyIsReported) {
  one.violation = transport::KeyViolation::kQKey;
  handle(packet_for(one.number(), "strange"));
  handle(packet_for(one.number(), "good"));
  EXPECT_EQ(outside.violations, std::vector{transport::KeyViolation::kQKey});
}

TEST_F(DispatchTest, APacketForANumberThatNoQueuePairHasIsCounted) {
  const wire::QpNumber gone = one.number();
  table.remove(gone);
  handle(packet_for(gone, "late"));
  EXPECT_EQ(outside.counts.unknown_qp, 1U);
  EXPECT_TRUE(one.got.empty());
  EXPECT_TRUE(agenda.listed().empty());
}

TEST_F(DispatchTest, APacketWithAWrongChecksumReachesNoQueuePair) {
  Packet spoilt = packet_for(one.number(), "text");
  spoilt.octets.back() ^= std::byte{1};
  handle(spoilt);
  EXPECT_EQ(outside.counts.malformed[static_cast<std::size_t>(wire::WireError::kBadChecksum)], 1U);
  EXPECT_TRUE(one.got.empty());
}

TEST_F(DispatchTest, WhatIsTooShortForAPacketIsCounted) {
  handle({});
  EXPECT_EQ(outside.counts.malformed[static_cast<std::size_t>(wire::WireError::kTruncated)], 1U);
}

TEST_F(DispatchTest, AFaultInRegisteredMemoryIsCountedAndTheQueuePairIsTold) {
  outside.faults = true;
  handle(packet_for(one.number(), "text"));
  EXPECT_EQ(outside.counts.memory_faults, 1U);
  EXPECT_EQ(one.memory_faults, 1);
  EXPECT_EQ(listed(), std::vector<FakeQp*>{&one});
  // An acknowledgement touches no registered memory.
  handle(packet_for(one.number(), "", Operation::kAcknowledge));
  EXPECT_EQ(outside.counts.memory_faults, 1U);
}

TEST_F(DispatchTest, APacketForAnotherSlotIsForwardedThere) {
  const wire::QpNumber theirs{(kSlot + 2) * kNumbersPerSlot +
                              QueuePairTable<FakeQp>::index_of(one.number())};
  const Packet packet = packet_for(theirs, "theirs");
  handle(packet);
  ASSERT_EQ(outside.forwarded.size(), 1U);
  EXPECT_EQ(outside.forwarded[0], std::pair(kSlot + 2, packet.octets.size()));
  EXPECT_TRUE(one.got.empty());
}

TEST_F(DispatchTest, APacketThatWasForwardedToUsIsNotForwardedAgain) {
  const wire::QpNumber theirs{(kSlot + 2) * kNumbersPerSlot +
                              QueuePairTable<FakeQp>::index_of(one.number())};
  handle(packet_for(theirs, "theirs"), ArrivedBy::kForwarding);
  EXPECT_TRUE(outside.forwarded.empty());
  EXPECT_EQ(outside.counts.unknown_qp, 1U);
  EXPECT_TRUE(one.got.empty());
  handle(packet_for(one.number(), "ours"), ArrivedBy::kForwarding);
  EXPECT_EQ(one.got, Payloads{"ours"});
}

TEST_F(DispatchTest, APacketForQueuePairOneGoesToTheGeneralServicesInterface) {
  const Packet packet = packet_for(wire::QpNumber::kGsi, "", Operation::kSendOnly, Transport::kUd);
  handle(packet);
  handle(packet, ArrivedBy::kForwarding);
  EXPECT_EQ(outside.management, (std::vector{ArrivedBy::kLink, ArrivedBy::kForwarding}));
}

TEST_F(DispatchTest, ARequestForAHalfThatTakesNoPacketsIsCountedAndDropped) {
  one.admits = false;
  handle(packet_for(one.number(), "request"));
  EXPECT_EQ(outside.counts.unexpected, 1U);
  EXPECT_TRUE(one.got.empty());
  // The queue pair itself counts a packet that does not come from its peer.
  one.is_addressed = false;
  handle(packet_for(one.number(), "stranger"));
  EXPECT_EQ(outside.counts.unexpected, 1U);
  EXPECT_EQ(one.got, Payloads{"stranger"});
  // An answer is no request.
  one.is_addressed = true;
  handle(packet_for(one.number(), "", Operation::kAcknowledge));
  EXPECT_EQ(outside.counts.unexpected, 1U);
  EXPECT_EQ(one.got.size(), 2U);
}

TEST_F(DispatchTest, EachMemberOfAGroupGetsACopy) {
  ASSERT_TRUE(groups.add(kGroup, one).ok());
  ASSERT_TRUE(groups.add(kGroup, three).ok());
  handle(datagram_for_group(three.number()));  // of another host, with the same number
  EXPECT_EQ(one.got, Payloads{"copy"});
  EXPECT_EQ(three.got, Payloads{"copy"});
  EXPECT_TRUE(two.got.empty());
  EXPECT_EQ(listed(), (std::vector<FakeQp*>{&one, &three}));
}

TEST_F(DispatchTest, ASenderGetsNoCopyOfItsOwnDatagram) {
  ASSERT_TRUE(groups.add(kGroup, one).ok());
  ASSERT_TRUE(groups.add(kGroup, three).ok());
  outside.own = kPeer;
  handle(datagram_for_group(three.number()));
  EXPECT_EQ(one.got, Payloads{"copy"});
  EXPECT_TRUE(three.got.empty());
}

TEST_F(DispatchTest, ADatagramForAGroupWithoutMembersIsCounted) {
  handle(datagram_for_group(one.number()));
  EXPECT_EQ(outside.counts.unknown_qp, 1U);
  ASSERT_TRUE(groups.add(kGroup, one).ok());
  Packet spoilt = datagram_for_group(two.number());
  spoilt.octets.back() ^= std::byte{1};
  handle(spoilt);
  EXPECT_TRUE(one.got.empty());
  EXPECT_EQ(outside.counts.malformed[static_cast<std::size_t>(wire::WireError::kBadChecksum)], 1U);
}

TEST_F(DispatchTest, OnlyDatagramsGoToGroups) {
  ASSERT_TRUE(groups.add(kGroup, one).ok());
  handle(
      packet_for(wire::QpNumber::kMulticast, "text", Operation::kSendOnly, Transport::kUc, kGroup));
  EXPECT_EQ(outside.counts.unknown_qp, 1U);
  EXPECT_TRUE(one.got.empty());
}

TEST_F(DispatchTest, APacketThatFindsNoReceiveWaitsAndLaterOnesWaitBehindIt) {
  one.without_receive = {"first"};
  handle(packet_for(one.number(), "first"));
  handle(packet_for(one.number(), "second"));  // needs no receive, and must not overtake
  handle(packet_for(two.number(), "other"));
  EXPECT_TRUE(dispatch.has_waiting());
  EXPECT_EQ(one.waiting_packets().count, 2);
  EXPECT_TRUE(one.got.empty());
  EXPECT_EQ(two.got, Payloads{"other"});

  dispatch.look_at_waiting(start);
  EXPECT_TRUE(one.got.empty()) << "the second must not overtake in a look, either";
  EXPECT_EQ(one.waiting_packets().count, 2);

  one.without_receive.clear();
  dispatch.look_at_waiting(start);
  EXPECT_EQ(one.got, (Payloads{"first", "second"}));
  EXPECT_EQ(one.waiting_packets().count, 0);
  EXPECT_FALSE(dispatch.has_waiting());
  EXPECT_EQ(dispatch.next_look(), Instant::never());
  EXPECT_EQ(listed(), (std::vector<FakeQp*>{&two, &one}));
}

TEST_F(DispatchTest, ALookDeliversThePacketsInFrontOfTheOneThatFindsNoReceive) {
  one.without_receive = {"a1", "a3"};
  two.without_receive = {"b1"};
  for (const char* text : {"a1", "a2", "a3", "a4"}) handle(packet_for(one.number(), text));
  for (const char* text : {"b1", "b2"}) handle(packet_for(two.number(), text));
  one.without_receive = {"a3"};
  dispatch.look_at_waiting(start);
  EXPECT_EQ(one.got, (Payloads{"a1", "a2"}));
  EXPECT_EQ(one.waiting_packets().count, 2);
  handle(packet_for(one.number(), "a5"));  // comes while others wait
  two.without_receive.clear();
  dispatch.look_at_waiting(start);
  EXPECT_EQ(one.got, (Payloads{"a1", "a2"}));
  EXPECT_EQ(two.got, (Payloads{"b1", "b2"})) << "one queue pair does not hold back another";
  one.without_receive.clear();
  dispatch.look_at_waiting(start);
  EXPECT_EQ(one.got, (Payloads{"a1", "a2", "a3", "a4", "a5"}));
  EXPECT_FALSE(dispatch.has_waiting());
}

TEST_F(DispatchTest, OnlyRequestsWaitBehindOthers) {
  one.without_receive = {"first"};
  handle(packet_for(one.number(), "first"));
  handle(packet_for(one.number(), "", Operation::kAcknowledge));
  handle(congestion_notification_for(one.number()));
  EXPECT_EQ(one.got, (Payloads{"", ""}));
  EXPECT_EQ(one.waiting_packets().count, 1);
}

TEST_F(DispatchTest, APacketThatWaitsIsRefusedWhenTheHalfTakesNoPacketsAnyMore) {
  one.without_receive = {"first"};
  handle(packet_for(one.number(), "first"));
  one.without_receive.clear();
  one.admits = false;  // a new connection, whose peer executes its requests directly
  dispatch.look_at_waiting(start);
  EXPECT_TRUE(one.got.empty());
  EXPECT_EQ(outside.counts.unexpected, 1U);
  EXPECT_EQ(one.waiting_packets().count, 0);
  EXPECT_FALSE(dispatch.has_waiting());
}

TEST_F(DispatchTest, ACopyForAMemberOfAGroupWaitsForItsReceiveAndOvertakesNothing) {
  ASSERT_TRUE(groups.add(kGroup, one).ok());
  ASSERT_TRUE(groups.add(kGroup, two).ok());
  ASSERT_TRUE(groups.add(kGroup, three).ok());
  one.without_receive = {"copy"};
  two.without_receive = {"before"};
  handle(packet_for(two.number(), "before"));
  handle(datagram_for_group(wire::QpNumber{0x77}));
  EXPECT_EQ(three.got, Payloads{"copy"});
  EXPECT_TRUE(one.got.empty());
  EXPECT_TRUE(two.got.empty());
  one.without_receive.clear();
  dispatch.look_at_waiting(start);
  EXPECT_EQ(one.got, Payloads{"copy"});
  EXPECT_TRUE(two.got.empty());
  two.without_receive.clear();
  dispatch.look_at_waiting(start);
  EXPECT_EQ(two.got, (Payloads{"before", "copy"}));
  EXPECT_FALSE(dispatch.has_waiting());
}

TEST_F(DispatchTest, APacketThatWaitsIsLookedAtAgain) {
  one.without_receive = {"first"};
  handle(packet_for(one.number(), "first"));
  dispatch.look_at_waiting(start);
  EXPECT_TRUE(dispatch.has_waiting());
  EXPECT_EQ(dispatch.next_look(), start + LateReceive::kNextLook);
  EXPECT_TRUE(one.got.empty());
}

TEST_F(DispatchTest, APacketWhoseQueuePairHasGoneWaitsNoLonger) {
  one.without_receive = {"first"};
  handle(packet_for(one.number(), "first"));
  table.remove(one.number());
  dispatch.look_at_waiting(start);
  EXPECT_FALSE(dispatch.has_waiting());
  EXPECT_TRUE(one.got.empty());
}

TEST_F(DispatchTest, TheFirstPacketOfThePeerEstablishesTheConnectionOnce) {
  one.communication = wire::CommId{42};
  one.is_addressed = false;
  handle(packet_for(one.number(), "stranger"));
  EXPECT_TRUE(outside.first_data.empty());
  one.is_addressed = true;
  handle(packet_for(one.number(), "a"));
  handle(packet_for(one.number(), "b"));
  EXPECT_EQ(outside.first_data, std::vector{wire::CommId{42}});
}

TEST_F(DispatchTest, TheFrontOfATrainThatGoesOnWithAMessageIsTakenAtOnceAndTheRestOneByOne) {
  const std::string payload(300, 'x');
  Packet train;
  for (std::uint16_t i = 0; i < 4; ++i) {
    const Packet each =
        packet_for(one.number(), payload, Operation::kSendMiddle, Transport::kRc, kHere, i);
    train.octets.insert(train.octets.end(), each.octets.begin(), each.octets.end());
    train.segment_octets = each.octets.size();
  }
  one.takes_of_train = 2;
  handle(train);
  // All four, then the two behind the run; the queue pair of this test takes two at a time.
  ASSERT_EQ(one.trains.size(), 2U);
  EXPECT_EQ(one.trains[0], (std::pair<std::size_t, std::uint16_t>{4, 0}));
  EXPECT_EQ(one.trains[1], (std::pair<std::size_t, std::uint16_t>{2, 2}));
  EXPECT_TRUE(one.got.empty());

  one.trains.clear();
  one.takes_of_train = 0;  // the queue pair takes none of them at once
  handle(train);
  EXPECT_EQ(one.trains.size(), 3U);  // the last packet is no run
  EXPECT_EQ(one.got, Payloads(4, payload));
  EXPECT_EQ(listed(), std::vector<FakeQp*>{&one});
}

TEST_F(DispatchTest, ATrainForAHalfThatTakesNoPacketsIsNoRun) {
  const std::string payload(300, 'x');
  Packet train;
  for (std::uint16_t i = 0; i < 2; ++i) {
    const Packet each =
        packet_for(one.number(), payload, Operation::kWriteMiddle, Transport::kRc, kHere, i);
    train.octets.insert(train.octets.end(), each.octets.begin(), each.octets.end());
    train.segment_octets = each.octets.size();
  }
  one.admits = false;
  one.takes_of_train = 2;
  handle(train);
  EXPECT_TRUE(one.trains.empty());
  EXPECT_TRUE(one.got.empty());
  EXPECT_EQ(outside.counts.unexpected, 2U);
}

}  // namespace
}  // namespace verbatim::loop
