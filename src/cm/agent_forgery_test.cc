// SPDX-License-Identifier: Apache-2.0
// Forged messages: each is dropped, counted, and changes nothing.
#include <gtest/gtest.h>

#include "cm/test_agent.h"

namespace verbatim::cm::test {
namespace {

using wire::CmMessage;
using wire::CommId;

const Address kStranger{.local = gid(1), .remote = gid(66)};

/// One of each message that names a communication.
std::vector<CmMessage> messages_to(CommId ours, CommId theirs) {
  return {wire::CmMra{.local_comm_id = theirs, .remote_comm_id = ours},
          wire::CmRej{.local_comm_id = theirs, .remote_comm_id = ours},
          wire::CmRep{.local_comm_id = theirs, .remote_comm_id = ours},
          wire::CmRtu{.local_comm_id = theirs, .remote_comm_id = ours},
          wire::CmDrep{.local_comm_id = theirs, .remote_comm_id = ours},
          wire::CmLap{.local_comm_id = theirs, .remote_comm_id = ours},
          wire::CmApr{.local_comm_id = theirs, .remote_comm_id = ours}};
}

using Reaching = CommId (Bench::*)();
constexpr Reaching kAllStates[] = {&Bench::to_req_sent,           &Bench::to_rep_received,
                                   &Bench::to_active_established, &Bench::to_req_received,
                                   &Bench::to_rep_sent,           &Bench::to_passive_established,
                                   &Bench::to_dreq_sent,          &Bench::to_timewait};

TEST(AgentForgery, AStrangerMovesNothing) {
  for (const Reaching reach : kAllStates) {
    Bench bench;
    const CommId id = (bench.*reach)();
    (void)bench.sent();
    for (const CmMessage& message : messages_to(id, kPeerId)) {
      EXPECT_EQ(bench.receive(message, kStranger), Verdict::kWrongPeer);
    }
    EXPECT_EQ(bench.receive(Bench::peer_dreq(id), kStranger), Verdict::kWrongPeer);
    EXPECT_EQ(bench.agent.counters().of(Verdict::kWrongPeer), 8U);
    EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
  }
}

TEST(AgentForgery, AnIdThatThePeerDoesNotHaveMovesNothing) {
  for (const Reaching reach : kAllStates) {
    if (reach == &Bench::to_req_sent) continue;  // the peer's ID is not known yet
    Bench bench;
    const CommId id = (bench.*reach)();
    for (const CmMessage& message : messages_to(id, CommId{0xbad})) {
      EXPECT_EQ(bench.receive(message), Verdict::kWrongRemoteId);
    }
    EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
    auto dreq = Bench::peer_dreq(id);
    dreq.local_comm_id = CommId{0xbad};
    EXPECT_EQ(bench.receive(dreq), Verdict::kAnswered) << "that connection does not exist";
    EXPECT_TRUE(bench.no_event());
  }
}

TEST(AgentForgery, AnIdThatWeNeverGaveMovesNothing) {
  Bench bench;
  const CommId id = bench.to_passive_established();
  for (const std::uint32_t other : {0U, 1U, 0xffff'ffffU, static_cast<std::uint32_t>(id) + 1,
                                    static_cast<std::uint32_t>(id) ^ 0x0000'4000U,
                                    static_cast<std::uint32_t>(id) ^ 0x0100'0000U}) {
    for (const CmMessage& message : messages_to(CommId{other}, kPeerId)) {
      EXPECT_EQ(bench.receive(message), Verdict::kUnknownId);
    }
  }
  EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
}

TEST(AgentForgery, AMessageAtTheWrongTimeChangesNothing) {
  Bench bench;
  CommId id = bench.to_req_sent();
  (void)bench.sent();
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmRtu>(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmDrep>(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmLap>(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmApr>(id)), Verdict::kWrongState);
  id = bench.to_req_received();
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmRep>(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmRtu>(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmDrep>(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::peer_dreq(id)), Verdict::kWrongState);
  EXPECT_EQ(bench.receive(Bench::from_peer<wire::CmMra>(id)), Verdict::kWrongState);
  EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
}

TEST(AgentForgery, MessagesOfTheLastLifeMoveNothing) {
  Bench bench;
  const CommId id = bench.to_timewait();
  ASSERT_TRUE(bench.agent.destroy(bench.now, id));
  bench.let_all_expire();
  ASSERT_EQ(bench.agent.communication_count(), 0U);
  for (const CmMessage& message : messages_to(id, kPeerId)) {
    EXPECT_EQ(bench.receive(message), Verdict::kUnknownId);
  }
  EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
}

TEST(AgentForgery, ALapIsAnsweredThatThereIsNoOtherPath) {
  Bench bench;
  const CommId id = bench.to_passive_established();
  auto lap = Bench::from_peer<wire::CmLap>(id);
  lap.transaction = wire::TransactionId{77};
  EXPECT_EQ(bench.receive(lap), Verdict::kHandled);
  const auto apr = bench.sent_one<wire::CmApr>();
  EXPECT_EQ(apr.status, wire::AprStatus::kNotSupported);
  EXPECT_EQ(apr.transaction, lap.transaction);
  EXPECT_EQ(apr.local_comm_id, id);
  EXPECT_EQ(apr.remote_comm_id, kPeerId);
  EXPECT_TRUE(bench.no_event());
}

TEST(AgentForgery, WhatIsNoMessageIsCounted) {
  Bench bench;
  std::array<std::byte, wire::Mad::kSize> octets;
  Bench::peer_req().emit(octets);
  EXPECT_EQ(bench.agent.handle_mad(bench.now, kAddress, {}), Verdict::kMalformed);
  EXPECT_EQ(bench.agent.handle_mad(bench.now, kAddress, std::span(octets).first(255)),
            Verdict::kMalformed);
  auto other = octets;
  other[0] = std::byte{2};
  EXPECT_EQ(bench.agent.handle_mad(bench.now, kAddress, other), Verdict::kMalformed);
  for (const std::size_t field : {1U, 2U, 3U, 17U}) {  // class, its version, method, attribute
    other = octets;
    other[field] = std::byte{0x7f};
    EXPECT_EQ(bench.agent.handle_mad(bench.now, kAddress, other), Verdict::kNotCm);
  }
  EXPECT_EQ(bench.agent.counters().of(Verdict::kMalformed), 3U);
  EXPECT_EQ(bench.agent.counters().of(Verdict::kNotCm), 4U);
  EXPECT_TRUE(bench.sent_nothing() && bench.no_event());
}

TEST(AgentForgery, AnOwnerThatDoesNotSendLosesDatagramsAndNoMemory) {
  Bench bench;
  for (std::uint32_t i = 0; i < Agent::kWaitingDatagramsMax + 10; ++i) {
    EXPECT_EQ(bench.receive(Bench::peer_req()), Verdict::kNoListener);
  }
  EXPECT_EQ(bench.agent.counters().not_sent, 10U);
  EXPECT_EQ(bench.sent().size(), Agent::kWaitingDatagramsMax);
}

TEST(AgentForgery, EveryVerdictHasItsPhrase) {
  for (std::size_t i = 0; i < kVerdictCount; ++i) {
    EXPECT_STRNE(describe(static_cast<Verdict>(i)), "?");
  }
  EXPECT_STREQ(describe(static_cast<Verdict>(kVerdictCount)), "?");
}

}  // namespace
}  // namespace verbatim::cm::test
