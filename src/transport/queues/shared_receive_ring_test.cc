// SPDX-License-Identifier: Apache-2.0
#include "transport/queues/shared_receive_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "transport/queues/test_block.h"

namespace verbatim::transport {
namespace {

constexpr memory::DomainId kDomain{3};
constexpr std::uint32_t kAlice = 0x8000'0011;
constexpr std::uint32_t kBob = 0x8000'0012;

// Where the counters lie in the block: each has a cache line of its own.
constexpr std::size_t kTailAt = 64;
constexpr std::size_t kHeadAt = 128;

using Claim = SharedReceiveRing::Claim;

class SharedReceiveRingTest : public testing::Test {
 protected:
  static constexpr SharedReceiveRing::Limits kLimits{.depth = 4, .sge_limit = 2};

  Status post(std::uint64_t wr_id) {
    const memory::Sge list[] = {
        {.address = wr_id * 16, .octets = static_cast<std::uint32_t>(wr_id), .lkey = {}}};
    return queue_.post({.wr_id = wr_id, .list = list});
  }
  /// Claims an entry that must be `wr_id`.
  Claim claim(std::uint64_t wr_id, std::uint32_t claimant = kAlice) {
    const Claim claimed = queue_.claim(claimant);
    EXPECT_NE(claimed.entry, nullptr);
    if (claimed.entry == nullptr) return claimed;
    EXPECT_EQ(claimed.entry->wr_id, wr_id);
    EXPECT_EQ(&queue_.at(claimed.cell), claimed.entry);
    EXPECT_EQ(queue_.list_of(*claimed.entry).size(), 1U);
    EXPECT_EQ(queue_.list_of(*claimed.entry)[0].address, wr_id * 16);
    return claimed;
  }
  bool is_empty() { return queue_.claim(kAlice).entry == nullptr; }

  TestBlock block_{SharedReceiveRing::octets_for(kLimits)};
  SharedReceiveRing queue_ = SharedReceiveRing::create(block_.span(), kDomain, kLimits);
};

TEST_F(SharedReceiveRingTest, BeginsEmptyWhateverTheMemoryHeld) {
  EXPECT_TRUE(queue_.exists());
  EXPECT_FALSE(SharedReceiveRing().exists());
  EXPECT_EQ(queue_.depth(), 4U);
  EXPECT_EQ(queue_.sge_limit(), 2U);
  EXPECT_EQ(queue_.domain(), kDomain);
  EXPECT_EQ(queue_.waiting_count(), 0U);
  EXPECT_EQ(queue_.limit(), 0U);
  EXPECT_FALSE(queue_.take_limit_event());
  EXPECT_TRUE(is_empty());
}

// ---- Posting and claiming

TEST_F(SharedReceiveRingTest, IsClaimedInTheOrderOfPosting) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  EXPECT_EQ(queue_.waiting_count(), 4U);
  claim(1, kAlice);
  claim(2, kBob);
  claim(3, kAlice);
  claim(4, kBob);
  EXPECT_EQ(queue_.waiting_count(), 0U);
  EXPECT_TRUE(is_empty());
}

TEST_F(SharedReceiveRingTest, IsFullAtItsDepth) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  EXPECT_EQ(post(5).error(), Errc::kNoMemory);
  const memory::Sge three[3]{};
  EXPECT_EQ(queue_.post({.wr_id = 1, .list = three}).error(), Errc::kInvalidArgument);
}

TEST_F(SharedReceiveRingTest, EntriesMayBeReleasedInAnyOrder) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  std::vector<Claim> claims;
  for (std::uint64_t i = 1; i <= 4; ++i) claims.push_back(claim(i));
  std::uint64_t next = 5;
  for (const std::size_t released : {2U, 0U, 3U, 1U}) {
    EXPECT_EQ(post(next).error(), Errc::kNoMemory);
    queue_.release(claims[released].cell);
    EXPECT_TRUE(post(next).ok());
    claim(next++);
  }
}

// A connection in the middle of a long message may keep its receive for ever. That costs the others
// one place and no more.
TEST_F(SharedReceiveRingTest, ASlowClaimantDoesNotStopTheOthers) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  const Claim slow = claim(1, kBob);
  for (std::uint64_t next = 5; next < 100; ++next) {
    queue_.release(claim(next - 3).cell);
    ASSERT_TRUE(post(next).ok()) << next;
    EXPECT_EQ(queue_.waiting_count(), 3U);
    EXPECT_EQ(post(0).error(), Errc::kNoMemory);
  }
  EXPECT_EQ(slow.entry->wr_id, 1U) << "no post writes into a cell that is held";
  queue_.release(slow.cell);
  EXPECT_TRUE(post(100).ok());
  for (std::uint64_t next = 97; next <= 100; ++next) claim(next);
}

TEST_F(SharedReceiveRingTest, AnyMixtureOfHoldingAndPostingKeepsEveryPlace) {
  Prng prng(11);
  std::vector<std::pair<Claim, std::uint64_t>> held;
  std::uint64_t next_in = 0;
  std::uint64_t next_out = 0;
  for (int step = 0; step < 5'000; ++step) {
    switch (prng.below(3)) {
      case 0: {
        const bool has_room = next_in - next_out + held.size() < kLimits.depth;
        ASSERT_EQ(post(next_in).ok(), has_room);
        if (has_room) ++next_in;
        break;
      }
      case 1:
        if (next_out == next_in) {
          ASSERT_TRUE(is_empty());
        } else {
          held.emplace_back(claim(next_out), next_out);
          ++next_out;
        }
        break;
      case 2: {
        if (held.empty()) break;
        const std::size_t which = prng.below(held.size());
        ASSERT_EQ(queue_.at(held[which].first.cell).wr_id, held[which].second);
        queue_.release(held[which].first.cell);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
    ASSERT_EQ(queue_.waiting_count(), next_in - next_out);
  }
}

TEST_F(SharedReceiveRingTest, ADepthThatIsNoPowerOfTwoIsKept) {
  constexpr SharedReceiveRing::Limits kOdd{.depth = 5, .sge_limit = 0};
  TestBlock block(SharedReceiveRing::octets_for(kOdd));
  auto queue = SharedReceiveRing::create(block.span(), kDomain, kOdd);
  for (std::uint64_t round = 0; round < 7; ++round) {
    for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(queue.post({.wr_id = i}).ok());
    EXPECT_EQ(queue.post({.wr_id = 9}).error(), Errc::kNoMemory);
    for (std::uint64_t i = 0; i < 5; ++i) {
      const auto claimed = queue.claim(kAlice);
      ASSERT_NE(claimed.entry, nullptr);
      EXPECT_EQ(claimed.entry->wr_id, i);
      queue.release(claimed.cell);
    }
  }
}

TEST_F(SharedReceiveRingTest, CountersMayWrap) {
  ASSERT_TRUE(post(1).ok());
  queue_.release(claim(1).cell);
  ASSERT_EQ(block_.word(kTailAt), 1U);
  ASSERT_EQ(block_.word(kHeadAt), 1U);
  block_.word(kTailAt) = block_.word(kHeadAt) = 0xffff'fffe;
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  EXPECT_EQ(post(5).error(), Errc::kNoMemory);
  EXPECT_EQ(queue_.waiting_count(), 4U);
  for (std::uint64_t i = 1; i <= 4; ++i) queue_.release(claim(i).cell);
  EXPECT_EQ(block_.word(kHeadAt), 2U);
  EXPECT_TRUE(is_empty());
}

TEST_F(SharedReceiveRingTest, IsTheSameQueueInEveryView) {
  auto peer = SharedReceiveRing::attach(block_.span());
  ASSERT_TRUE(post(5).ok());
  const Claim claimed = peer.claim(kBob);
  ASSERT_NE(claimed.entry, nullptr);
  EXPECT_EQ(claimed.entry->wr_id, 5U);
  EXPECT_TRUE(is_empty());
  peer.release(claimed.cell);
  EXPECT_TRUE(post(6).ok());
}

TEST_F(SharedReceiveRingTest, NeverShowsAListLongerThanItsCell) {
  ASSERT_TRUE(post(5).ok());
  const Claim claimed = claim(5);
  const_cast<ReceiveEntry*>(claimed.entry)->sge_count = 0xffff'ffff;
  EXPECT_EQ(queue_.list_of(*claimed.entry).size(), 2U);
}

// ---- The limit (IBA Vol 1, 11.2.9)

TEST_F(SharedReceiveRingTest, ReportsOnceThatFewerThanTheLimitWait) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  ASSERT_TRUE(queue_.arm_limit(3).ok());
  EXPECT_EQ(queue_.limit(), 3U);
  EXPECT_FALSE(queue_.take_limit_event());
  claim(1);
  EXPECT_FALSE(queue_.take_limit_event()) << "three wait: not below the limit";
  claim(2);
  EXPECT_EQ(queue_.limit(), 0U) << "one shot";
  EXPECT_TRUE(queue_.take_limit_event());
  EXPECT_FALSE(queue_.take_limit_event());
  claim(3);
  EXPECT_FALSE(queue_.take_limit_event());
}

TEST_F(SharedReceiveRingTest, ReportsAgainWhenArmedAgain) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(post(1).ok());
    ASSERT_TRUE(post(2).ok());
    ASSERT_TRUE(queue_.arm_limit(2).ok());
    EXPECT_FALSE(queue_.take_limit_event());
    queue_.release(claim(1).cell);
    EXPECT_TRUE(queue_.take_limit_event());
    queue_.release(claim(2).cell);
    EXPECT_FALSE(queue_.take_limit_event());
  }
}

TEST_F(SharedReceiveRingTest, ReportsAtOnceWhenTooFewWaitAlready) {
  ASSERT_TRUE(post(1).ok());
  ASSERT_TRUE(queue_.arm_limit(2).ok());
  EXPECT_TRUE(queue_.take_limit_event());
  EXPECT_EQ(queue_.limit(), 0U);
}

TEST_F(SharedReceiveRingTest, DoesNotReportWhatWasDisarmed) {
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(post(i).ok());
  ASSERT_TRUE(queue_.arm_limit(2).ok());
  ASSERT_TRUE(queue_.arm_limit(0).ok());
  claim(1);
  claim(2);
  EXPECT_FALSE(queue_.take_limit_event());
}

TEST_F(SharedReceiveRingTest, RefusesALimitBeyondItsDepth) {
  EXPECT_EQ(queue_.arm_limit(5).error(), Errc::kInvalidArgument);
  EXPECT_EQ(queue_.limit(), 0U);
  EXPECT_FALSE(queue_.take_limit_event());
  EXPECT_TRUE(queue_.arm_limit(4).ok());
}

// ---- Claimants that died

TEST_F(SharedReceiveRingTest, PutsBackWhatADeadClaimantHeld) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  claim(1, kBob);
  const Claim alive = claim(2, kAlice);
  claim(3, kBob);
  queue_.put_back(kBob);
  EXPECT_EQ(queue_.waiting_count(), 3U) << "both wait again, behind what was posted";
  EXPECT_EQ(post(7).error(), Errc::kNoMemory) << "what the living holds stays held";
  EXPECT_EQ(queue_.at(alive.cell).wr_id, 2U);
  claim(4);
  claim(1);
  claim(3);
  EXPECT_TRUE(is_empty());
}

TEST_F(SharedReceiveRingTest, PutsBackOneThatTheClaimantReallyHas) {
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(post(i).ok());
  const Claim mine = claim(1, kAlice);
  EXPECT_FALSE(queue_.put_back(kBob, mine.cell));
  EXPECT_TRUE(queue_.put_back(kAlice, mine.cell));
  EXPECT_FALSE(queue_.put_back(kAlice, mine.cell));
  claim(2);
  queue_.release(claim(1, kAlice).cell);
  EXPECT_FALSE(queue_.put_back(kAlice, mine.cell)) << "it was released";
}

/// The claimant dies when the entry is claimed and the head has not moved.
TEST_F(SharedReceiveRingTest, TheNextClaimantStepsOverOneThatDiedHalfway) {
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(post(i).ok());
  const Claim half = claim(1, kBob);
  block_.word(kHeadAt) -= 1;
  claim(2, kAlice);
  EXPECT_EQ(queue_.waiting_count(), 1U);
  queue_.put_back(kBob);
  EXPECT_TRUE(queue_.at(half.cell).wr_id == 1U);
  claim(3, kAlice);
  claim(1, kAlice);
  EXPECT_TRUE(is_empty());
}

TEST_F(SharedReceiveRingTest, TheOwnerStepsOverOneThatDiedHalfway) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  const Claim half = claim(1, kBob);
  queue_.release(half.cell);
  block_.word(kHeadAt) -= 1;
  EXPECT_TRUE(post(5).ok()) << "three wait and none is held";
  for (std::uint64_t i = 2; i <= 5; ++i) claim(i);
}

TEST_F(SharedReceiveRingTest, AFullQueueHasAPlaceForWhatADeadClaimantHeldHalfway) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
  claim(1, kBob);
  block_.word(kHeadAt) -= 1;
  queue_.put_back(kBob);
  EXPECT_EQ(queue_.waiting_count(), 4U);
  for (const std::uint64_t i : {2U, 3U, 4U, 1U}) claim(i);
  EXPECT_TRUE(is_empty());
}

/// A claimant is delayed after it has read which cell is next, while the ring goes once around.
TEST_F(SharedReceiveRingTest, AClaimantThatSleptCannotTakeALaterReceiveOfTheSameCell) {
  ASSERT_TRUE(post(1).ok());
  const std::uint32_t posted = queue_.at(0).claim;
  const Claim first = claim(1, kBob);
  queue_.release(first.cell);
  for (std::uint64_t i = 2; i <= 5; ++i) ASSERT_TRUE(post(i).ok());
  for (std::uint32_t cell = 0; cell < 4; ++cell) {
    EXPECT_NE(queue_.at(cell).claim, posted) << "its compare-and-swap would find what it expects";
  }
}

TEST_F(SharedReceiveRingTest, CallsTheBarrierBetweenArmingTheLimitAndLooking) {
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(post(i).ok());
  static SharedReceiveRing* racing = nullptr;
  racing = &queue_;
  // A claim that did not see the limit, and reaches memory only with the barrier.
  ASSERT_TRUE(queue_
                  .arm_limit(2,
                             []() noexcept {
                               EXPECT_EQ(racing->limit(), 2U);
                               (void)racing->claim(kBob);
                             })
                  .ok());
  EXPECT_TRUE(queue_.take_limit_event());
}

// ---- Threads

TEST_F(SharedReceiveRingTest, EveryReceiveGoesToExactlyOneOfManyClaimants) {
  constexpr std::uint64_t kCount = 10'000;
  constexpr std::uint32_t kClaimants = 2;
  std::vector<std::atomic<std::uint32_t>> taken(kCount);
  std::atomic<std::uint64_t> total = 0;
  std::atomic<std::uint64_t> torn = 0;
  std::vector<std::thread> claimants;
  for (std::uint32_t i = 0; i < kClaimants; ++i) {
    claimants.emplace_back([&, i, queue = SharedReceiveRing::attach(block_.span())]() mutable {
      Claim kept;  // every second one is held until the next one is done, so that the order mixes
      while (total < kCount) {
        const Claim claimed = queue.claim(0x8000'0000 + i);
        if (claimed.entry == nullptr) {
          if (kept.entry != nullptr) queue.release(kept.cell);
          kept = {};
          std::this_thread::yield();
          continue;
        }
        const std::uint64_t wr_id = claimed.entry->wr_id;
        if (queue.list_of(*claimed.entry)[0].address != wr_id * 16) ++torn;
        ++taken[wr_id];
        ++total;
        if (kept.entry == nullptr) {
          kept = claimed;
          continue;
        }
        queue.release(claimed.cell);
        queue.release(kept.cell);
        kept = {};
      }
      if (kept.entry != nullptr) queue.release(kept.cell);
    });
  }
  for (std::uint64_t i = 0; i < kCount; ++i) {
    while (!post(i).ok()) std::this_thread::yield();
  }
  for (auto& claimant : claimants) claimant.join();
  EXPECT_EQ(torn, 0U);
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(taken[i], 1U) << i;
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(post(i).ok()) << "every cell is free again";
}

TEST_F(SharedReceiveRingTest, TheLimitIsReportedOnceAlsoByManyClaimants) {
  for (int round = 0; round < 50; ++round) {
    for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(post(i).ok());
    ASSERT_TRUE(queue_.arm_limit(3).ok());
    std::vector<std::thread> claimants;
    for (const std::uint32_t who : {kAlice, kBob}) {
      claimants.emplace_back([who, queue = SharedReceiveRing::attach(block_.span())]() mutable {
        for (int i = 0; i < 2; ++i) {
          const Claim claimed = queue.claim(who);
          if (claimed.entry != nullptr) queue.release(claimed.cell);
        }
      });
    }
    for (auto& claimant : claimants) claimant.join();
    EXPECT_TRUE(queue_.take_limit_event());
    EXPECT_FALSE(queue_.take_limit_event());
    EXPECT_EQ(queue_.limit(), 0U);
  }
}

}  // namespace
}  // namespace verbatim::transport
