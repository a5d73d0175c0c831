// SPDX-License-Identifier: Apache-2.0
// Requesters in the receiving halves of this process: waiting for them, and what a stopped one may
// still touch.
#include "device/visitors.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "device/clock.h"

namespace verbatim::device {
namespace {

constexpr std::size_t kRoom = std::size_t{1} << 20;
constexpr std::size_t kBlock = 4096;
constexpr std::uint64_t kMemory = 0x10000;
constexpr std::uint64_t kMemoryOctets = 0x1000;
constexpr std::uint32_t kFirstNumber = 20;

/// A receiving half with a requester of this process, which enters and leaves as the test says.
class TestHalf final : public VisitedHalf {
 public:
  explicit TestHalf(std::uint32_t number) : half_(&record_, {}) {
    half_.begin({.type = transport::QpType::kRc, .number = wire::QpNumber{number}},
                direct::Visitor(nullptr, &visiting_));
    const auto life = static_cast<std::uint32_t>(record_.claim >> 32);
    record_.claim =
        direct::HalfRecord::claim_of(life, direct::HalfRecord::kDirectBit | (number + 1));
    half_.open();
  }

  [[nodiscard]] direct::Half& half() noexcept override { return half_; }
  [[nodiscard]] std::set<memory::DomainId> domains() const override {
    return {memory::DomainId{1}};
  }
  void note_stray() override { ++strays_noted; }
  void leave_requester_behind() override { ++requesters_left_behind; }

  void enter() { visiting_.inside.enter(Fencing::kFenced); }
  void leave() { visiting_.inside.leave(Fencing::kFenced); }
  void begin_call(std::uint64_t address, std::uint64_t octets) {
    std::atomic_ref(visiting_.call_at).store(address);
    std::atomic_ref(visiting_.call_octets).store(octets);
  }
  void end_call() { std::atomic_ref(visiting_.call_octets).store(0); }

  int strays_noted = 0;
  int requesters_left_behind = 0;

 private:
  direct::HalfRecord record_;
  direct::Visiting visiting_;
  direct::Half half_;
};

class VisitorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(segment.open(kRoom).ok());
    visitors.add_half(first);
    visitors.add_half(second);
    visitors.note_direct_use();
  }
  void TearDown() override {
    visitors.remove_half(first);
    visitors.remove_half(second);
  }

  /// The owner of `first` gives up the present visit, which may touch `touched`.
  void give_up_visit(const std::byte* touched) {
    ASSERT_FALSE(visitors.await());
    visitors.add_stray(first.half(),
                       {.has_gone = {}, .touches = {touched}, .on_gone = [this] { ++gone; }});
  }
  /// Whether a block that is taken now lies where that one lay.
  bool is_free(std::span<std::byte> block) {
    const auto taken = segment.take(block.size());
    const bool is_same = taken.data() == block.data();
    segment.give_back(taken);
    return is_same;
  }

  host::Segment segment;
  std::vector<Instant> deadlines;
  Visitors visitors{segment, [this](Instant deadline) { deadlines.push_back(deadline); }};
  TestHalf first{kFirstNumber};
  TestHalf second{kFirstNumber + 2};
  int gone = 0;
};

TEST_F(VisitorsTest, NoVisitIsNothingToWaitFor) {
  EXPECT_TRUE(visitors.await());
  first.enter();
  first.leave();
  EXPECT_TRUE(visitors.await());
  EXPECT_EQ(first.strays_noted, 0);
}

TEST_F(VisitorsTest, AVisitorThatStaysIsAStrayOfItsHalfAlone) {
  first.enter();
  EXPECT_FALSE(visitors.await());
  EXPECT_EQ(first.strays_noted, 1);
  EXPECT_EQ(second.strays_noted, 0);
  EXPECT_NE(first.half().given_up(), 0U);
  first.leave();
  EXPECT_TRUE(visitors.await());
}

TEST_F(VisitorsTest, AHalfThatIsUnclaimedOrRemovedIsNotLookedAt) {
  first.enter();
  second.enter();
  visitors.remove_half(first);
  second.half().lock_out();
  EXPECT_TRUE(visitors.await());
  EXPECT_EQ(first.strays_noted + second.strays_noted, 0);
}

TEST_F(VisitorsTest, ABlockThatAStrayMayTouchIsFreeWhenTheStrayHasLeft) {
  const auto touched = segment.take(kBlock);
  const auto other = segment.take(2 * kBlock);
  first.enter();
  give_up_visit(touched.data());
  visitors.give_back(touched);
  visitors.give_back(other);
  EXPECT_TRUE(is_free(other));
  visitors.look(now());
  EXPECT_FALSE(is_free(touched));
  EXPECT_EQ(gone, 0);

  first.leave();
  visitors.look_if_any(now());
  EXPECT_TRUE(is_free(touched));
  EXPECT_EQ(gone, 1);
}

TEST_F(VisitorsTest, StraysAreLookedAtUntilTheyHaveGone) {
  EXPECT_EQ(visitors.next_look(), Instant::never());
  first.enter();
  give_up_visit(nullptr);
  ASSERT_EQ(deadlines.size(), 1U);
  EXPECT_EQ(visitors.next_look(), deadlines.front());

  const Instant at = now();
  visitors.look(at);
  EXPECT_GT(visitors.next_look(), at);
  EXPECT_NE(visitors.next_look(), Instant::never());
  first.leave();
  visitors.look(at);
  EXPECT_EQ(visitors.next_look(), Instant::never());
}

TEST_F(VisitorsTest, StraysOfAnAdapterThatIsClosedOrAbandonedAreForgotten) {
  first.enter();
  ASSERT_FALSE(visitors.await());
  auto closed = std::make_unique<Visitors>(segment, [](Instant) {});
  closed->add_stray(first.half(), {});
  closed.reset();
  Visitors abandoned(segment, [](Instant) {});
  abandoned.add_stray(first.half(), {});
  abandoned.abandon_in_child();
  EXPECT_EQ(abandoned.next_look(), Instant::never());

  give_up_visit(nullptr);
  first.leave();
  visitors.look(now());
  EXPECT_EQ(visitors.next_look(), Instant::never());
}

TEST_F(VisitorsTest, AwaitsACallIntoTheMemoryWithoutTheLock) {
  host::AdapterLock mutex;
  host::AdapterGuard lock(mutex);
  first.enter();
  first.begin_call(kMemory + kMemoryOctets - 8, 16);
  std::atomic<bool> is_over{false};
  std::thread ending([&] {
    const std::lock_guard other(mutex);  // waits for await_calls() to release the lock
    is_over = true;
    first.end_call();
  });
  visitors.await_calls(lock, kMemory, kMemoryOctets);
  EXPECT_TRUE(is_over);
  EXPECT_TRUE(lock.is_held());
  lock.unlock();
  ending.join();
  first.leave();
}

TEST_F(VisitorsTest, ACallIntoOtherMemoryIsNotAwaited) {
  host::AdapterLock mutex;
  host::AdapterGuard lock(mutex);
  first.enter();
  first.begin_call(kMemory + kMemoryOctets, 16);
  visitors.await_calls(lock, kMemory, kMemoryOctets);
  EXPECT_TRUE(lock.is_held());
  first.leave();
}

TEST_F(VisitorsTest, TheCallOfAStrayIsAwaitedAlthoughItsHalfHasAnotherRequester) {
  first.enter();
  first.begin_call(kMemory, 8);
  give_up_visit(nullptr);
  visitors.remove_half(first);
  host::AdapterLock mutex;
  host::AdapterGuard lock(mutex);
  std::atomic<bool> is_over{false};
  std::thread ending([&] {
    const std::lock_guard other(mutex);
    is_over = true;
    first.leave();
  });
  visitors.await_calls(lock, kMemory, kMemoryOctets);
  EXPECT_TRUE(is_over);
  lock.unlock();
  ending.join();
}

/// lock_out() with regions that have no memory: only the halves are of interest.
class LockOutTest : public VisitorsTest {
 protected:
  void lock_out() { visitors.lock_out(first, homes); }

  host::AdapterLock mutex;
  std::vector<memory::KeyEntry> entries{16};
  std::vector<std::uint32_t> free_keys = std::vector<std::uint32_t>(16);
  memory::KeyRegistry keys{memory::KeyTable(entries, 0), free_keys, 1};
  RegionHomes homes{keys, mutex, visitors};
};

TEST_F(LockOutTest, AHalfWhoseVisitorIsStoppedGoesOnElsewhere) {
  first.enter();
  second.enter();
  lock_out();
  EXPECT_EQ(first.requesters_left_behind, 1);
  EXPECT_EQ(second.requesters_left_behind, 0);
  first.leave();
  second.leave();
}

TEST_F(LockOutTest, AVisitorThatHasLeftMeanwhileIsNotLeftBehind) {
  lock_out();
  EXPECT_EQ(first.requesters_left_behind, 0);
}

}  // namespace
}  // namespace verbatim::device
