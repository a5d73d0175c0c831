// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/landing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/rc/test_responder.h"

// A requester in another process can die between any two steps of Landing. Each test brings the
// shared memory into the state between two of them, by the steps themselves. Then the owner ends
// the queue pair: every receive completes once.
namespace verbatim::transport::test {
namespace {

using Endings = std::vector<std::pair<std::uint64_t, WcStatus>>;

Endings endings(const std::vector<Completion>& completions) {
  Endings all;
  for (const auto& each : completions) all.emplace_back(each.wr_id, each.status);
  return all;
}

constexpr Completion kReceived{.status = WcStatus::kSuccess, .opcode = WcOpcode::kReceive};

Completion received(std::uint64_t wr_id) {
  Completion made = kReceived;
  made.wr_id = wr_id;
  return made;
}

class DeathInAReceive : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 1; i <= 3; ++i) receiver_.post_receive(64);  // their wr_id are 1, 2, 3
  }
  Endings flush() {
    receiver_.landing().flush();
    return endings(receiver_.completions());
  }
  Receiver receiver_{false};
};

TEST_F(DeathInAReceive, BeforeItIsTaken) {
  EXPECT_EQ(flush(),
            (Endings{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}, {3, WcStatus::kFlushed}}));
}

TEST_F(DeathInAReceive, WhenItIsTaken) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  EXPECT_EQ(flush(),
            (Endings{{1, WcStatus::kFlushed}, {2, WcStatus::kFlushed}, {3, WcStatus::kFlushed}}));
}

TEST_F(DeathInAReceive, WhenItsCompletionIsOut) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  ASSERT_TRUE(receiver_.port().publish(received(1)));
  EXPECT_EQ(flush(),
            (Endings{{1, WcStatus::kSuccess}, {2, WcStatus::kFlushed}, {3, WcStatus::kFlushed}}));
}

TEST_F(DeathInAReceive, WhenTheHeadHasMoved) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  ASSERT_TRUE(receiver_.port().publish(received(1)));
  receiver_.queue().pop();
  EXPECT_EQ(flush(),
            (Endings{{1, WcStatus::kSuccess}, {2, WcStatus::kFlushed}, {3, WcStatus::kFlushed}}));
}

TEST_F(DeathInAReceive, WhenTheHeadHasMovedPastTheLast) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(receiver_.landing().take_receive());
    ASSERT_TRUE(receiver_.landing().complete_receive(kReceived));
  }
  ASSERT_TRUE(receiver_.landing().take_receive());
  ASSERT_TRUE(receiver_.port().publish(received(3)));
  receiver_.queue().pop();
  EXPECT_EQ(flush(),
            (Endings{{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}, {3, WcStatus::kSuccess}}));
}

TEST_F(DeathInAReceive, AndAResetForgetsWhatIsLeft) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  ASSERT_TRUE(receiver_.port().publish(received(1)));
  receiver_.landing().clear();
  EXPECT_EQ(receiver_.queue().posted_count(), 0U);
  EXPECT_EQ(endings(receiver_.completions()), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_TRUE(flush().empty());
}

class DeathInASharedReceive : public testing::Test {
 protected:
  static constexpr std::uint32_t kOther = 0x8000'0099;
  void SetUp() override {
    for (int i = 1; i <= 3; ++i) receiver_.post_receive(64);
  }
  std::uint32_t claimant() {
    return static_cast<std::uint32_t>(receiver_.state().number) | Landing::kQpClaimBit;
  }
  /// The receives that other queue pairs can still claim, in order.
  std::vector<std::uint64_t> left() {
    std::vector<std::uint64_t> all;
    auto shared = receiver_.shared();
    for (;;) {
      const auto claim = shared.claim(kOther);
      if (claim.entry == nullptr) return all;
      all.push_back(claim.entry->wr_id);
    }
  }
  Endings flush() {
    receiver_.landing().flush();
    return endings(receiver_.completions());
  }
  Receiver receiver_{true};
};

using Ids = std::vector<std::uint64_t>;

TEST_F(DeathInASharedReceive, WhenItIsOnlyClaimed) {
  ASSERT_NE(receiver_.shared().claim(claimant()).entry, nullptr);
  EXPECT_TRUE(flush().empty());
  EXPECT_EQ(left(), (Ids{2, 3, 1})) << "no message knew of it: it waits for another";
}

TEST_F(DeathInASharedReceive, WhenItIsTaken) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  EXPECT_EQ(flush(), (Endings{{1, WcStatus::kFlushed}}));
  EXPECT_EQ(left(), (Ids{2, 3}));
}

TEST_F(DeathInASharedReceive, WhenItIsReleasedAndItsCompletionIsNotOut) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  auto shared = receiver_.shared();
  shared.release(receiver_.state().shared_cell);
  EXPECT_EQ(flush(), (Endings{{1, WcStatus::kFlushed}})) << "its number is not in the cell alone";
  EXPECT_EQ(left(), (Ids{2, 3}));
}

TEST_F(DeathInASharedReceive, WhenItIsReleasedAndAnotherClaimantHasTheCell) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  const std::uint32_t cell = receiver_.state().shared_cell;
  auto shared = receiver_.shared();
  shared.release(cell);
  while (shared.at(cell).wr_id == 1) receiver_.post_receive(64);
  EXPECT_FALSE(left().empty());
  ASSERT_TRUE(shared.is_claimed_by(kOther, cell));
  EXPECT_EQ(flush(), (Endings{{1, WcStatus::kFlushed}}));
  EXPECT_TRUE(shared.is_claimed_by(kOther, cell)) << "another claimant has it";
}

TEST_F(DeathInASharedReceive, WhenItsCompletionIsOut) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  receiver_.shared().release(receiver_.state().shared_cell);
  ASSERT_TRUE(receiver_.port().publish(received(1)));
  EXPECT_EQ(flush(), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(left(), (Ids{2, 3}));
}

TEST_F(DeathInASharedReceive, AndAResetLeavesItToTheOthers) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  receiver_.landing().clear();
  EXPECT_TRUE(receiver_.completions().empty());
  EXPECT_EQ(left(), (Ids{2, 3, 1}));
}

TEST_F(DeathInASharedReceive, AndAResetTakesNothingFromOthers) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  const std::uint32_t cell = receiver_.state().shared_cell;
  receiver_.shared().release(cell);
  while (receiver_.shared().at(cell).wr_id == 1) receiver_.post_receive(64);
  EXPECT_FALSE(left().empty());
  receiver_.landing().clear();
  EXPECT_TRUE(receiver_.shared().is_claimed_by(kOther, cell));
  EXPECT_TRUE(left().empty());
}

TEST_F(DeathInASharedReceive, RecoveryIsHarmlessBetweenMessages) {
  ASSERT_TRUE(receiver_.landing().take_receive());
  receiver_.landing().recover();
  receiver_.landing().recover();
  EXPECT_TRUE(receiver_.state().receive_taken);
  ASSERT_TRUE(receiver_.landing().complete_receive(kReceived));
  receiver_.landing().recover();
  EXPECT_EQ(endings(receiver_.completions()), (Endings{{1, WcStatus::kSuccess}}));
  EXPECT_EQ(left(), (Ids{2, 3}));
}

/// A program that has polled a completion may post another receive at once, wherever the requester
/// is.
TEST_F(DeathInASharedReceive, ACellIsReleasedBeforeItsCompletionIsPublished) {
  for (std::uint32_t i = 3; i < Receiver::kDepth; ++i) receiver_.post_receive(64);
  auto shared = receiver_.shared();
  ASSERT_EQ(shared.post({.wr_id = 99}).error(), Errc::kNoMemory);
  ASSERT_TRUE(receiver_.landing().take_receive());
  EXPECT_EQ(shared.post({.wr_id = 99}).error(), Errc::kNoMemory);
  ASSERT_TRUE(receiver_.landing().complete_receive(kReceived));
  EXPECT_TRUE(shared.post({.wr_id = 99}).ok());
}

}  // namespace
}  // namespace verbatim::transport::test
