// SPDX-License-Identifier: Apache-2.0
#include "loop/progress.h"

#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "link/test_link.h"

namespace verbatim::loop {
namespace {

using link::test::FakeLink;
using Psns = std::vector<std::uint32_t>;
using Log = std::vector<std::string>;

Instant at_us(int microseconds) { return Instant::at(std::chrono::microseconds(microseconds)); }

/// A queue pair that has packets to send, named by their PSNs, and writes down what is done to it.
struct FakeQp {
  FakeQp(std::string its_name, Log& its_log) : name(std::move(its_name)), log(its_log) {
    const link::Outgoing to = link::test::outgoing();
    path.source = to.source;
    path.destination = to.destination;
    path.source_port = to.source_port;
  }

  FakeQp& machine() noexcept { return *this; }
  AgendaEntry& agenda_entry() noexcept { return entry; }
  const std::string& number() const noexcept { return name; }
  std::shared_ptr<int> hold() {
    EXPECT_EQ(holds, 0) << "not twice";
    ++holds;
    return {nullptr, [this](int*) { --holds; }};
  }
  bool run_directly() {
    EXPECT_EQ(holds, 1);
    return !has_more_directly;
  }
  bool is_reliable() const noexcept { return reliable; }
  bool only_acknowledges() const noexcept { return false; }
  bool may_have_more() const noexcept { return !to_send.empty(); }
  transport::QueuePairMachine::Transmit poll_train(Instant, const transport::TrainRoom& room) {
    if (to_send.empty() || held_until) return {};
    const std::size_t octets = link::test::write_packet(room.frame, link::test::outgoing(),
                                                        to_send.front(), room.identification);
    to_send.pop_front();
    return {.octets = octets, .packets = 1, .identification = room.identification, .path = &path};
  }
  void handle_memory_fault() noexcept {}
  std::optional<transport::KeyViolation> take_key_violation() noexcept { return std::nullopt; }
  std::optional<transport::UnreliableSender::Destination> next_unreliable_destination(
      Instant) const noexcept {
    if (to_send.empty()) return std::nullopt;
    transport::UnreliableSender::Destination next;
    next.path = &path;
    next.number = destination;
    return next;
  }
  void hold_until(Instant until) { held_until = until; }
  Instant next_timeout() const noexcept { return timeout; }
  void handle_timeout(Instant) {
    log.push_back(name + " times out");
    timeout = timeout_afterwards;
  }
  bool waits_for_receive() const noexcept { return waits; }
  bool finds_receive() const noexcept { return finds; }
  void announce() { log.push_back(name + " announces"); }
  void show() noexcept {}
  bool is_waited_for() const noexcept { return waited_for; }

  std::string name;
  Log& log;
  AgendaEntry entry;
  transport::Path path;
  wire::QpNumber destination{3 * kNumbersPerSlot + 20};
  std::deque<std::uint32_t> to_send;
  std::optional<Instant> held_until;
  Instant timeout = Instant::never();
  Instant timeout_afterwards = Instant::never();
  int holds = 0;
  bool reliable = true;
  bool has_more_directly = false;
  bool waits = false;
  bool finds = false;
  bool waited_for = false;
};

struct FakePackets {
  void handle(const link::Incoming& incoming, ArrivedBy arrived_by, Instant) {
    incoming.for_each_packet([&](std::span<const std::byte> packet) {
      (arrived_by == ArrivedBy::kLink ? by_wire : forwarded).push_back(link::test::psn_of(packet));
    });
    if (receiver == nullptr) return;
    agenda.list(*receiver);
    if (postpones_to != Instant::never()) receiver->timeout = postpones_to;
  }
  bool has_waiting() const noexcept { return looks_left > 0; }
  void look_at_waiting(Instant at) {
    --looks_left;
    look_again = looks_left > 0 ? at + std::chrono::microseconds(7) : Instant::never();
  }
  Instant next_look() const noexcept { return look_again; }

  Agenda<FakeQp>& agenda;
  FakeQp* receiver = nullptr;
  Instant postpones_to = Instant::never();  // a packet is progress for the receiver
  Psns by_wire{};
  Psns forwarded{};
  int looks_left = 0;
  Instant look_again = Instant::never();
};

struct FakeOutside {
  struct Room {
    struct Receiver {
      wire::Gid gid{};
      std::uint32_t slot = 0;
      friend bool operator==(const Receiver&, const Receiver&) = default;
    };
    static constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
    static constexpr Duration kNextLook = std::chrono::microseconds(50);
    static constexpr std::size_t charge(const link::Load& load) noexcept { return load.packets; }
  };
  struct Forwarded {
    link::Incoming incoming{};
    std::span<std::byte> octets{};
  };

  struct Uncancelled {};
  PacketCounters& counters() noexcept { return counts; }
  template <typename Work>
  bool guarded(Work&& work) {
    work();
    return true;
  }
  void expect_faults() noexcept { ++expected_faults; }
  Room::Receiver receiver_at(const wire::Gid& gid, std::uint32_t slot) const noexcept {
    return {.gid = gid, .slot = slot};
  }
  std::size_t room_at(const Room::Receiver& receiver, Instant) {
    asked.push_back(receiver.slot);
    if (rooms.empty()) return Room::kUnlimited;
    const std::size_t room = rooms.front();
    rooms.pop_front();
    return room;
  }
  std::optional<Forwarded> take_forwarded() {
    if (mailbox.empty()) return std::nullopt;
    packet.resize(link::kFrameOctets);
    packet.resize(link::test::write_packet(packet, link::test::outgoing(), mailbox.front(), 0));
    mailbox.pop_front();
    Forwarded result;
    result.incoming.octets = packet;
    result.octets = packet;
    return result;
  }
  void note_deadline(Instant at) { deadlines.push_back(at); }
  void note_kept_answers(Instant at) { note_deadline(at); }
  void note_caller(Instant) { ++callers; }
  Instant next_chore() const noexcept { return chore_at; }
  void do_chores(Instant) {
    ++chores;
    chore_at = Instant::never();
  }

  PacketCounters counts;
  std::deque<std::size_t> rooms;  // what the next looks find; then there is no limit
  std::vector<std::uint32_t> asked;
  std::deque<std::uint32_t> mailbox;
  std::vector<std::byte> packet;
  std::vector<Instant> deadlines;
  int callers = 0;
  int expected_faults = 0;
  Instant chore_at = Instant::never();
  int chores = 0;
};

class ProgressTest : public ::testing::Test {
 protected:
  using Tested = Progress<FakeQp, FakePackets, FakeOutside>;
  void SetUp() override { progress.use(link); }

  Log log;
  FakeLink link;
  Agenda<FakeQp> agenda;
  FakePackets packets{.agenda = agenda};
  FakeOutside outside;
  Tested progress{agenda, packets, outside};
  FakeQp a{"a", log}, b{"b", log};
};

TEST_F(ProgressTest, OneRoundSendsWhatAllHaveInOneBurstAndThenAnnounces) {
  a.to_send = {1, 2};
  b.to_send = {3};
  progress.list(a);
  progress.list(b);
  EXPECT_TRUE(progress.owes_answers());
  progress.serve(at_us(1));
  EXPECT_EQ(link.sent_psns(), (Psns{1, 2, 3}));
  EXPECT_EQ(link.sends, 1U);
  EXPECT_EQ(log, (Log{"a announces", "b announces"}));
  EXPECT_FALSE(progress.owes_answers());
  EXPECT_FALSE(progress.has_work());
}

TEST_F(ProgressTest, AQueuePairThatIsServedByNameGoesFirst) {
  a.to_send = {1};
  b.to_send = {2};
  progress.list(a);
  progress.serve(b, at_us(1));
  EXPECT_EQ(link.sent_psns(), (Psns{2, 1}));
}

TEST_F(ProgressTest, NothingIsSentWhereNothingIsOwed) {
  progress.serve_owed(at_us(1));
  EXPECT_EQ(link.sends, 0U);
  progress.list(a);
  progress.serve_owed(at_us(1));
  EXPECT_EQ(link.sends, 1U);
}

TEST_F(ProgressTest, ATurnIsLimitedAndTheRestComesInTheNextRound) {
  for (std::uint32_t psn = 1; psn <= 100; ++psn) a.to_send.push_back(psn);
  b.to_send = {1000};
  progress.list(a);
  progress.list(b);
  progress.serve(at_us(5));
  ASSERT_EQ(link.sent.size(), 97U);
  EXPECT_EQ(link.sent_psns().back(), 1000U);
  EXPECT_TRUE(progress.has_work());
  EXPECT_EQ(outside.deadlines, std::vector{at_us(5)}) << "the engine goes on with it";
  progress.serve_owed(at_us(6));
  EXPECT_EQ(link.sent.size(), 101U);
  EXPECT_FALSE(progress.has_work());
}

TEST_F(ProgressTest, AHeldLinkMakesQueuePairsWaitUntilItLooksForRoom) {
  a.to_send = {1, 2};
  link.hold(true);
  link.due = at_us(25);
  progress.list(a);
  progress.serve(at_us(5));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_TRUE(progress.owes_answers());
  EXPECT_EQ(outside.deadlines.back(), at_us(25));
  link.hold(false);
  link.due = Instant::never();
  progress.serve_owed(at_us(25));
  EXPECT_EQ(link.sent_psns(), (Psns{1, 2}));
  EXPECT_FALSE(progress.has_work());
}

TEST_F(ProgressTest, TimersWaitWhileTheLinkIsHeld) {
  for (std::uint32_t psn = 1; psn <= 300; ++psn) a.to_send.push_back(psn);
  a.timeout = a.timeout_afterwards = at_us(1);  // it stays due while there is something to send
  ASSERT_TRUE(agenda.set_timer(a, a.timeout));
  link.fills_up = true;
  link.due = at_us(25);
  (void)progress.run_timers(at_us(2));
  EXPECT_FALSE(a.to_send.empty());
  EXPECT_EQ(progress.next_deadline(), at_us(25));
  const Log before = log;
  (void)progress.run_timers(at_us(3));
  EXPECT_EQ(log, before);
  link.hold(false);
  EXPECT_EQ(progress.next_deadline(), at_us(1));
}

TEST_F(ProgressTest, ReceivingSendsNothing) {
  packets.receiver = &a;
  a.to_send = {9};
  link.let_arrive({1, 2});
  EXPECT_TRUE(progress.receive(Tested::Look::kAtAllAddresses, at_us(1)));
  EXPECT_EQ(packets.by_wire, (Psns{1, 2}));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_TRUE(progress.owes_answers());
  EXPECT_FALSE(progress.receive(Tested::Look::kAtAllAddresses, at_us(2)));
  EXPECT_FALSE(progress.run(at_us(2)));
  EXPECT_EQ(link.sent_psns(), Psns{9});
}

TEST_F(ProgressTest, PacketsOfOtherProcessesAreTakenWhereOneLooksEverywhereSoManyAtATime) {
  for (std::uint32_t psn = 1; psn <= 40; ++psn) outside.mailbox.push_back(psn);
  (void)progress.receive(Tested::Look::kAtTheLastAddress, at_us(1));
  EXPECT_TRUE(packets.forwarded.empty());
  (void)progress.receive(Tested::Look::kAtAllAddresses, at_us(1));
  EXPECT_EQ(packets.forwarded.size(), 32U);
  (void)progress.receive(Tested::Look::kAtAllAddresses, at_us(2));
  EXPECT_EQ(packets.forwarded.size(), 40U);
}

TEST_F(ProgressTest, PacketsThatWaitForReceivesAreLookedAtAndTheEngineIsToldWhenNext) {
  packets.looks_left = 2;
  (void)progress.receive(Tested::Look::kAtTheLastAddress, at_us(1));
  EXPECT_EQ(packets.looks_left, 1);
  EXPECT_EQ(outside.deadlines, std::vector{at_us(8)});
  EXPECT_EQ(progress.next_deadline(), at_us(8));
}

TEST_F(ProgressTest, ACallerLooksForPacketsOnlyWhereAQueuePairUsesThem) {
  link.let_arrive({1});
  EXPECT_FALSE(progress.receive_for_caller(at_us(1)));
  EXPECT_FALSE(link.last_look.has_value());
  EXPECT_EQ(outside.callers, 0);
  progress.count_packet_users(1);
  EXPECT_TRUE(progress.receive_for_caller(at_us(2)));
  EXPECT_EQ(packets.by_wire, Psns{1});
  EXPECT_EQ(outside.callers, 1);
  progress.count_packet_users(-1);
  EXPECT_FALSE(progress.has_packet_users());
}

TEST_F(ProgressTest, ACallerLooksEverywhereFromTimeToTime) {
  progress.count_packet_users(1);
  int everywhere = 0;
  for (int call = 0; call < 64; ++call) {
    (void)progress.receive_for_caller(at_us(call));
    if (link.last_look == link::Link::Look::kAtAllAddresses) ++everywhere;
  }
  EXPECT_EQ(everywhere, 2);
}

TEST_F(ProgressTest, WhatIsKeptStaysUntilTheNextRoundAndTheEngineIsTold) {
  a.to_send = {1};
  progress.list(a);
  progress.keep(at_us(100));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_TRUE(log.empty());
  ASSERT_EQ(outside.deadlines.size(), 1U);
  EXPECT_GT(outside.deadlines[0], at_us(100));
  progress.serve_owed(at_us(101));
  EXPECT_EQ(link.sent_psns(), Psns{1});
}

TEST_F(ProgressTest, AProgramThatWaitsForACompletionIsToldAtOnceThoughAnswersAreKept) {
  a.waited_for = true;
  progress.list(a);
  progress.list(b);
  progress.keep(at_us(100));
  EXPECT_EQ(log, Log{"a announces"});
  EXPECT_TRUE(link.sent.empty());
}

TEST_F(ProgressTest, AnswersAreNotKeptForLongWhereEveryCallFindsSomething) {
  a.to_send = {1};
  progress.list(a);
  progress.keep(at_us(100));
  progress.keep(at_us(300));
  EXPECT_TRUE(link.sent.empty());
  progress.keep(at_us(301));
  EXPECT_EQ(link.sent_psns(), Psns{1});
  b.to_send = {2};
  progress.list(b);
  progress.keep(at_us(302));  // the time of these begins anew
  EXPECT_EQ(link.sent_psns(), Psns{1});
}

TEST_F(ProgressTest, KeepingNothingWakesNoThread) {
  progress.keep(at_us(1));
  EXPECT_TRUE(outside.deadlines.empty());
}

TEST_F(ProgressTest, ATimerIsSetWithTheTurnAndFiresWhenItIsDue) {
  a.timeout = at_us(50);
  progress.serve(a, at_us(1));
  EXPECT_EQ(outside.deadlines, std::vector{at_us(50)});
  EXPECT_EQ(progress.next_deadline(), at_us(50));
  log.clear();
  progress.run_timers(at_us(49));
  EXPECT_TRUE(log.empty());
  a.to_send = {7};  // a repetition
  a.timeout_afterwards = at_us(90);
  progress.run_timers(at_us(50));
  EXPECT_EQ(log, (Log{"a times out", "a announces"}));
  EXPECT_TRUE(progress.owes_answers()) << "it is written, and leaves with the next burst";
  EXPECT_EQ(progress.next_deadline(), at_us(90));
  progress.serve_owed(at_us(51));
  EXPECT_EQ(link.sent_psns(), Psns{7});
}

TEST_F(ProgressTest, ATimerThatTheQueuePairDoesNotNeedAnyMoreOnlyMoves) {
  a.timeout = at_us(50);
  progress.serve(a, at_us(1));
  a.timeout = at_us(80);  // progress was made meanwhile
  log.clear();
  progress.run_timers(at_us(60));
  EXPECT_EQ(log, Log{"a announces"});
  EXPECT_EQ(progress.next_deadline(), at_us(80));
}

TEST_F(ProgressTest, ATimerDoesNotExpireWhileTheAnswerWaitsToBeTaken) {
  a.timeout = at_us(50);
  progress.serve(a, at_us(1));
  log.clear();
  packets.receiver = &a;
  packets.postpones_to = at_us(120);
  link.let_arrive({1});
  EXPECT_TRUE(progress.run_timers(at_us(60))) << "as a thread that was away for long";
  EXPECT_EQ(link.last_look, link::Link::Look::kAtAllAddresses);
  EXPECT_EQ(packets.by_wire, Psns{1});
  EXPECT_EQ(log, Log{"a announces"});
  EXPECT_EQ(progress.next_deadline(), at_us(120));
}

TEST_F(ProgressTest, ACallerWhoseTimerIsDueLooksEverywhereAndUntilNothingComes) {
  progress.count_packet_users(1);
  (void)progress.receive_for_caller(at_us(1));  // the first of a round: everywhere
  a.timeout = at_us(50);
  progress.serve(a, at_us(2));
  log.clear();
  for (std::uint32_t psn = 1; psn <= 40; ++psn) outside.mailbox.push_back(psn);
  EXPECT_FALSE(progress.receive_for_caller(at_us(49)));
  EXPECT_TRUE(packets.forwarded.empty());
  EXPECT_TRUE(progress.receive_for_caller(at_us(50)));
  EXPECT_EQ(packets.forwarded.size(), 40U);
  EXPECT_EQ(log, (Log{"a times out", "a announces"}));
}

TEST_F(ProgressTest, ChoresAreDoneWhenTheyAreDue) {
  outside.chore_at = at_us(10);
  EXPECT_EQ(progress.next_deadline(), at_us(10));
  progress.run_timers(at_us(9));
  EXPECT_EQ(outside.chores, 0);
  progress.run_timers(at_us(10));
  EXPECT_EQ(outside.chores, 1);
}

TEST_F(ProgressTest, ACallerGoesOnWithARequestWhosePeerHasPostedAReceive) {
  a.waits = true;
  progress.serve(a, at_us(1));
  EXPECT_TRUE(progress.has_work());
  (void)progress.receive_for_caller(at_us(2));
  EXPECT_FALSE(progress.owes_answers());
  a.finds = true;
  (void)progress.receive_for_caller(at_us(3));
  EXPECT_TRUE(progress.owes_answers());
  a.waits = false;
  progress.serve_owed(at_us(3));
  EXPECT_FALSE(progress.has_work());
}

TEST_F(ProgressTest, AQueuePairThatExecutesDirectlyAndIsNotDoneComesAgain) {
  a.has_more_directly = true;
  progress.serve(a, at_us(1));
  EXPECT_TRUE(progress.has_work());
  a.has_more_directly = false;
  progress.serve_owed(at_us(2));
  EXPECT_FALSE(progress.has_work());
}

TEST_F(ProgressTest, AnUnreliableServiceWaitsForAReceiverThatHasNoRoom) {
  a.reliable = false;
  a.to_send = {1, 2, 3};
  // For two packets, then for none: neither before these have left nor afterwards.
  outside.rooms = {2, 0, 0};
  progress.serve(a, at_us(10));
  EXPECT_EQ(link.sent_psns(), (Psns{1, 2}));
  EXPECT_EQ(a.held_until, at_us(60));
  EXPECT_EQ(outside.asked.front(), 3U) << "the slot that the number carries";
}

TEST_F(ProgressTest, WhatIsOnItsWayToAReceiverCountsAgainstItsRoom) {
  b.to_send = {9};
  progress.list(b);
  a.reliable = false;
  a.to_send = {1};
  progress.list(a);
  outside.rooms = {1,
                   1};  // as much as is on its way: it leaves first, and then there is a new look
  progress.serve(at_us(10));
  EXPECT_EQ(link.sent_psns(), (Psns{9, 1}));
  EXPECT_EQ(outside.asked.size(), 2U);
  EXPECT_FALSE(a.held_until.has_value());
}

TEST_F(ProgressTest, AMulticastGroupHasNoReceiverToWaitFor) {
  a.reliable = false;
  a.destination = wire::QpNumber::kMulticast;
  a.to_send = {1};
  outside.rooms = {0};
  progress.serve(a, at_us(10));
  EXPECT_EQ(link.sent_psns(), Psns{1});
  EXPECT_TRUE(outside.asked.empty());
}

TEST_F(ProgressTest, TheEngineIsToldWhenTheLinkHasSomethingToDoLater) {
  link.due = at_us(77);
  progress.serve(a, at_us(1));
  EXPECT_EQ(outside.deadlines, std::vector{at_us(77)});
  EXPECT_EQ(progress.next_deadline(), at_us(77));
  EXPECT_EQ(link.sends, 1U);
  progress.flush_due(at_us(76));
  EXPECT_EQ(link.sends, 1U);
  progress.flush_due(at_us(77));
  EXPECT_EQ(link.sends, 2U);
}

TEST_F(ProgressTest, InAForkedChildNothingMoves) {
  a.to_send = {1};
  link.let_arrive({5});
  progress.abandon_in_child();
  EXPECT_FALSE(progress.receive(Tested::Look::kAtAllAddresses, at_us(1)));
  progress.serve(a, at_us(1));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_TRUE(packets.by_wire.empty());
  EXPECT_FALSE(link.last_look.has_value());
}

TEST_F(ProgressTest, AQueuePairThatGoesHasNoTurnAndNoTimer) {
  a.timeout = at_us(5);
  progress.serve(a, at_us(1));
  progress.list(a);
  progress.forget(a);
  log.clear();
  progress.run_timers(at_us(10));
  progress.serve(at_us(10));
  EXPECT_TRUE(log.empty());
}

}  // namespace
}  // namespace verbatim::loop
