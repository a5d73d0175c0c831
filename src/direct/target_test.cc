// SPDX-License-Identifier: Apache-2.0
// Execution in a half that is correct, in one that was taken away, and in one with wrong content.
#include "direct/target.h"

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <array>
#include <memory>
#include <vector>

#include "base/pointer.h"
#include "base/prng.h"
#include "direct/test_owner.h"

namespace verbatim::direct {
namespace {

using test::Owner;
using transport::SendOpcode;
using Receives = Owner::Receives;

constexpr std::uint32_t kOctets = 64;
constexpr Duration kNoPatience{0};

class TargetTest : public ::testing::TestWithParam<Receives> {
 protected:
  TargetTest() { octets_.fill(std::byte{7}); }

  [[nodiscard]] Chunk chunk(std::uint32_t octets = kOctets) {
    piece_ = {.iov_base = octets_.data(), .iov_len = octets};
    return {
        .offset = 0, .octets = octets, .is_first = true, .is_last = true, .pieces = {&piece_, 1}};
  }
  [[nodiscard]] Answer send(Target& target) {
    return target.send(owner_->entry(SendOpcode::kSend, kOctets), chunk());
  }
  [[nodiscard]] Answer write(Target& target) {
    return target.write(owner_->entry(SendOpcode::kWrite, kOctets), chunk());
  }
  /// Everything that a requester may do, with any outcome.
  void do_everything(Target& target) {
    if (target.visit().enter()) {
      (void)send(target);
      (void)write(target);
      auto read = owner_->entry(SendOpcode::kRead, kOctets);
      if (target.begin_read(read) == Answer::kDone) (void)target.read(read, chunk());
      std::uint64_t original = 0;
      (void)target.atomic(owner_->entry(SendOpcode::kFetchAdd, 8), original);
      (void)target.has_receive();
      (void)target.receiver_delay();
      (void)target.visit().is_given_up();
    }
    target.visit().leave();
  }

  std::unique_ptr<Owner> owner_ = std::make_unique<Owner>(GetParam());
  std::array<std::byte, 1024> octets_{};
  iovec piece_{};
};

INSTANTIATE_TEST_SUITE_P(Queues, TargetTest, ::testing::Values(Receives::kOwn, Receives::kShared),
                         [](const auto& kind) {
                           return kind.param == Receives::kOwn ? "Own" : "Shared";
                         });

TEST_P(TargetTest, ExecutesWritesAndSends) {
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(owner_->post_receive(5));
  ASSERT_TRUE(target.visit().enter());
  EXPECT_EQ(write(target), Answer::kDone);
  EXPECT_EQ(owner_->region()[kOctets - 1], std::byte{7});
  EXPECT_EQ(send(target), Answer::kDone);
  EXPECT_EQ(send(target), Answer::kNotReady);
  EXPECT_FALSE(target.visit().is_given_up());
  target.visit().leave();
  transport::Completion completion;
  ASSERT_TRUE(owner_->collect(completion));
  EXPECT_EQ(completion.wr_id, 5U);
  EXPECT_EQ(completion.octets, kOctets);
}

// ---- Refused ----

/// The effects of a refused request on the requester, on the half and on a receive that was taken
/// are the same as in packets (transport/rules/verdict.h has the table).
TEST_P(TargetTest, RefusesAsAResponderOfPacketsDoes) {
  using transport::QpEvent;
  using transport::Reason;
  struct Case {
    const char* what;
    SendOpcode opcode;
    void (*spoil)(Owner& owner, transport::SendEntry& entry);
    Answer answer;
    Reason reason;
    QpEvent event;
  };
  const Case cases[] = {
      {"an atomic that is not aligned", SendOpcode::kFetchAdd,
       [](Owner&, transport::SendEntry& entry) { entry.remote_address += 4; },
       Answer::kInvalidRequest, Reason::kMisaligned, QpEvent::kRequestError},
      {"an ATOMIC WRITE that is not aligned", SendOpcode::kAtomicWrite,
       [](Owner&, transport::SendEntry& entry) { entry.remote_address += 4; },
       Answer::kInvalidRequest, Reason::kMisaligned, QpEvent::kRequestError},
      {"an ATOMIC WRITE of seven octets", SendOpcode::kAtomicWrite,
       [](Owner&, transport::SendEntry& entry) { entry.octets = 7; }, Answer::kInvalidRequest,
       Reason::kBadPacketLength, QpEvent::kRequestError},
      {"a FLUSH to a place that is reserved", SendOpcode::kFlush,
       [](Owner&, transport::SendEntry& entry) { entry.flush.placement = 4; },
       Answer::kInvalidRequest, Reason::kReservedValue, QpEvent::kRequestError},
      {"a FLUSH that the region does not allow", SendOpcode::kFlush,
       [](Owner&, transport::SendEntry& entry) { entry.flush_octets = 64; }, Answer::kAccessRefused,
       transport::reason_of(memory::Refusal::kNoFlush), QpEvent::kAccessError},
      {"an atomic with a key that was withdrawn", SendOpcode::kCompareSwap,
       [](Owner& owner, transport::SendEntry&) { owner.withdraw_key(); }, Answer::kAccessRefused,
       transport::reason_of(memory::Refusal::kInvalidated), QpEvent::kAccessError},
      {"an atomic that the queue pair does not allow", SendOpcode::kFetchAdd,
       [](Owner& owner, transport::SendEntry&) { owner.state().access = {}; },
       Answer::kInvalidRequest, Reason::kOperationNotEnabled, QpEvent::kRequestError},
      {"an atomic without a place to remember it", SendOpcode::kFetchAdd,
       [](Owner& owner, transport::SendEntry&) { owner.state().replay_limit = 0; },
       Answer::kInvalidRequest, Reason::kTooManyReads, QpEvent::kRequestError},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.what);
    owner_ = std::make_unique<Owner>(GetParam());
    Target target = owner_->requester();
    ASSERT_EQ(target.meet(), Target::Meeting::kMet);
    ASSERT_TRUE(target.visit().enter());
    auto entry = owner_->entry(each.opcode, 8);
    each.spoil(*owner_, entry);
    std::uint64_t original = 0;
    const Answer answer = each.opcode == SendOpcode::kFlush ? target.flush(entry)
                          : each.opcode == SendOpcode::kAtomicWrite
                              ? target.atomic_write(entry, 1)
                              : target.atomic(entry, original);
    EXPECT_EQ(answer, each.answer);
    EXPECT_EQ(owner_->state().reason, each.reason);
    EXPECT_EQ(owner_->state().event, each.event);
    EXPECT_TRUE(owner_->state().event_due);
    EXPECT_TRUE(has_failed(owner_->state()));
    target.visit().leave();
    EXPECT_FALSE(target.visit().enter()) << "it has failed";
    target.visit().leave();
  }
}

TEST_P(TargetTest, AReceiveThatIsTooShortCompletesWithALengthError) {
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(owner_->post_receive(5));
  ASSERT_TRUE(target.visit().enter());
  EXPECT_EQ(target.send(owner_->entry(SendOpcode::kSend, 1025), chunk()), Answer::kInvalidRequest);
  target.visit().leave();
  transport::Completion completion;
  ASSERT_TRUE(owner_->collect(completion));
  EXPECT_EQ(completion.wr_id, 5U);
  EXPECT_EQ(completion.status, transport::WcStatus::kLocalLength);
  EXPECT_FALSE(owner_->state().event_due);
}

// ---- Taken away ----

TEST_P(TargetTest, AnUnclaimedHalfIsShutWithoutWaiting) {
  Target target = owner_->requester();
  owner_->half().shut();
  EXPECT_FALSE(owner_->half().may_be_visited());
  owner_->half().open();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  owner_->half().shut();
  EXPECT_TRUE(owner_->half().may_be_visited());
}

TEST_P(TargetTest, AVisitThatIsGivenUpFindsThatOut) {
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(target.visit().enter());
  EXPECT_EQ(Half::await({&owner_->half()}, kNoPatience), std::vector{&owner_->half()});
  EXPECT_TRUE(target.visit().is_given_up());
  target.visit().leave();
  EXPECT_TRUE(Half::await({&owner_->half()}, kNoPatience).empty());
  ASSERT_TRUE(target.visit().enter()) << "only that visit was given up";
  EXPECT_FALSE(target.visit().is_given_up());
  target.visit().leave();
}

TEST_P(TargetTest, AVisitThatIsGivenUpCompletesNoReceive) {
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(owner_->post_receive(5));
  ASSERT_TRUE(target.visit().enter());
  (void)Half::await({&owner_->half()}, kNoPatience);
  EXPECT_EQ(send(target), Answer::kSilence);
  target.visit().leave();
  transport::Completion completion;
  EXPECT_FALSE(owner_->collect(completion));
}

TEST_P(TargetTest, AWriteThatWasGivenUpCountsUnlessItsKeyIsInvalid) {
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(target.visit().enter());
  ASSERT_EQ(write(target), Answer::kDone);
  (void)Half::await({&owner_->half()}, kNoPatience);
  EXPECT_TRUE(target.counts_late(owner_->entry(SendOpcode::kWrite, kOctets)));
  owner_->withdraw_key();
  EXPECT_FALSE(target.counts_late(owner_->entry(SendOpcode::kWrite, kOctets)));
  EXPECT_FALSE(target.visit().is_locked_out());
  EXPECT_EQ(write(target), Answer::kAccessRefused) << "when it is tried again";
  target.visit().leave();
}

/// Whichever part of a message is late, it is sent again to its place, and is counted once.
TEST_P(TargetTest, APartOfASendThatWasGivenUpIsRepeatedInItsPlace) {
  constexpr std::uint32_t kParts = 3;
  const auto entry = owner_->entry(SendOpcode::kSend, kParts * kOctets);
  for (std::uint32_t late = 0; late < kParts; ++late) {
    owner_ = std::make_unique<Owner>(GetParam());
    Target target = owner_->requester();
    ASSERT_EQ(target.meet(), Target::Meeting::kMet);
    ASSERT_TRUE(owner_->post_receive(5));
    const auto send_part = [&](std::uint32_t i) {
      octets_.fill(std::byte(i + 1));
      Chunk part = chunk();
      part.offset = i * kOctets;
      part.is_first = i == 0;
      part.is_last = i + 1 == kParts;
      return target.send(entry, part);
    };
    for (std::uint32_t i = 0; i < kParts; ++i) {
      if (i == late) {
        ASSERT_TRUE(target.visit().enter());
        (void)Half::await({&owner_->half()}, kNoPatience);
        EXPECT_EQ(send_part(i), Answer::kSilence);
        target.visit().leave();
      }
      ASSERT_TRUE(target.visit().enter());
      EXPECT_EQ(send_part(i), Answer::kDone);
      target.visit().leave();
    }
    transport::Completion completion;
    ASSERT_TRUE(owner_->collect(completion));
    EXPECT_EQ(completion.octets, kParts * kOctets) << "late: " << late;
    for (std::uint32_t at = 0; at < kParts * kOctets; ++at) {
      ASSERT_EQ(owner_->region()[at], std::byte(at / kOctets + 1)) << "late: " << late;
    }
  }
}

TEST_P(TargetTest, ARequesterThatWasLockedOutIsNeverAnsweredAgain) {
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(target.visit().enter());
  ASSERT_EQ(write(target), Answer::kDone);
  owner_->half().lock_out();
  EXPECT_TRUE(target.visit().is_given_up());
  EXPECT_TRUE(target.visit().is_locked_out());
  EXPECT_FALSE(target.counts_late(owner_->entry(SendOpcode::kWrite, kOctets)));
  target.visit().leave();
  EXPECT_FALSE(target.visit().enter());
  target.visit().leave();
  EXPECT_FALSE(owner_->half().admits_packets());
  Target another = owner_->requester();
  EXPECT_EQ(another.meet(), Target::Meeting::kMismatch);
}

TEST_P(TargetTest, ARequesterOfAnEarlierLifeDoesNotDisturbTheNext) {
  Target earlier = owner_->requester();
  ASSERT_EQ(earlier.meet(), Target::Meeting::kMet);
  ASSERT_TRUE(earlier.visit().enter());
  owner_->begin_again();
  Target later = owner_->requester();
  ASSERT_EQ(later.meet(), Target::Meeting::kMet);
  earlier.visit().leave();
  EXPECT_FALSE(earlier.visit().enter());
  earlier.visit().leave();
  ASSERT_TRUE(later.visit().enter());
  EXPECT_FALSE(later.visit().is_given_up());
  later.visit().leave();
}

// ---- Packets ----

TEST_P(TargetTest, APacketDecidesNothingBeforeTheRequesterHasChosenPackets) {
  EXPECT_FALSE(owner_->half().admits_packets());
  owner_->record_of_requester().visiting.choose_packets(Owner::kRequester);  // another destination
  EXPECT_FALSE(owner_->half().admits_packets());
  Target target = owner_->requester();
  ASSERT_EQ(target.meet(), Target::Meeting::kMet);
  owner_->record_of_requester().visiting.choose_packets(Owner::kNumber);
  EXPECT_FALSE(owner_->half().admits_packets()) << "too late: the half is claimed";
}

TEST_P(TargetTest, APacketDecidesWhenTheRequesterHasChosenPackets) {
  owner_->record_of_requester().visiting.choose_packets(Owner::kNumber);
  EXPECT_TRUE(owner_->half().admits_packets());
  EXPECT_TRUE(owner_->half().admits_packets());
  Target target = owner_->requester();
  EXPECT_EQ(target.meet(), Target::Meeting::kMismatch);
}

// ---- Wrong content ----

TEST_P(TargetTest, AHalfWithAPartOutsideTheSegmentIsNotMet) {
  const auto size = std::uint64_t{Owner::kOctets};
  for (const std::uint64_t lie :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, size, size - 1, size - 64, size + 64,
        ~std::uint64_t{0}, ~std::uint64_t{63}, std::uint64_t{1} << 63}) {
    for (std::uint64_t HalfRecord::*field :
         {&HalfRecord::responder_at, &HalfRecord::lane_at, &HalfRecord::board_at,
          GetParam() == Receives::kOwn ? &HalfRecord::receive_at : &HalfRecord::shared_at}) {
      owner_ = std::make_unique<Owner>(GetParam());
      owner_->record().*field = lie;
      Target target = owner_->requester();
      // The last line of the segment is zeroes, which a board or a lane of one place may be.
      if (lie == size - 64 && target.meet() == Target::Meeting::kMet) {
        do_everything(target);
        continue;
      }
      EXPECT_EQ(target.meet(), Target::Meeting::kMismatch) << lie;
    }
  }
}

TEST_P(TargetTest, AHalfWithoutAReceiveQueueIsNotMet) {
  owner_->record().receive_at = owner_->record().shared_at = 0;
  EXPECT_EQ(owner_->requester().meet(), Target::Meeting::kMismatch);
}

TEST_P(TargetTest, AHalfWithAQueueLargerThanTheSegmentIsNotMet) {
  const auto refused_with = [&](std::span<std::byte> (Owner::*block)() const noexcept,
                                std::size_t word, std::uint32_t lie) {
    owner_ = std::make_unique<Owner>(GetParam());
    std::memcpy(((*owner_).*block)().data() + word * 4, &lie, sizeof lie);
    return owner_->requester().meet() == Target::Meeting::kMismatch;
  };
  for (const std::uint32_t lie : {1U << 16, 0x7fff'ffffU, 0x8000'0001U, ~0U}) {
    EXPECT_TRUE(refused_with(&Owner::receive_block, 0, lie)) << "depth " << lie;
    EXPECT_TRUE(refused_with(&Owner::receive_block, 1, lie)) << "elements " << lie;
    EXPECT_TRUE(refused_with(&Owner::lane_block, 0, lie - 1)) << "lane " << lie;
    EXPECT_TRUE(refused_with(&Owner::board_block, 0, lie)) << "board " << lie;
  }
  EXPECT_TRUE(refused_with(&Owner::lane_block, 0, 4)) << "no power of two";
  owner_ = std::make_unique<Owner>(GetParam());
  owner_->record().lane_hint = 4;
  EXPECT_EQ(owner_->requester().meet(), Target::Meeting::kMismatch);
}

TEST_P(TargetTest, ANumberBehindTheLastRecordIsNotMet) {
  auto* header = pointer_as<host::SegmentHeader>(owner_->segment().data());
  header->half_count = 20;
  const Target::Self self{.number = wire::QpNumber{3}, .dest_qp = Owner::kNumber};
  Target target(nullptr, {.segment = owner_->segment().data(), .bell = nullptr}, self,
                [] { return Instant{}; });
  EXPECT_EQ(target.meet(), Target::Meeting::kMismatch);
  EXPECT_FALSE(target.stand_in());
}

/// Whatever the owner's process writes into its segment, at any time: the requester stays inside
/// the segment and the region, and its calls end. The pages around the segment are not mapped.
TEST_P(TargetTest, StaysInTheSegmentWhateverItHolds) {
  Prng prng(20);
  for (int round = 0; round < 4000; ++round) {
    owner_ = std::make_unique<Owner>(GetParam());
    Target target = owner_->requester();
    for (std::uint64_t i = 0; i < prng.below(4); ++i) (void)owner_->post_receive(i);
    const std::array<std::span<std::byte>, 5> blocks{
        owner_->state_block(), owner_->receive_block(), owner_->lane_block(), owner_->board_block(),
        std::as_writable_bytes(std::span(&owner_->record(), 1)).first(offsetof(HalfRecord, local))};
    const bool lies_before = prng.below(2) == 0;
    const auto lie = [&] {
      for (std::uint64_t i = 0; i <= prng.below(4); ++i) {
        const auto block = blocks[prng.below(blocks.size())];
        constexpr std::array<std::uint64_t, 6> kValues{0, 1, 0x7fff'ffff, 0xffff'ffff, ~0ULL, 64};
        const std::uint64_t value =
            prng.below(2) == 0 ? kValues[prng.below(kValues.size())] : prng.next();
        const std::size_t at = prng.below(block.size() / 8) * 8;
        std::memcpy(block.data() + at, &value, prng.below(2) == 0 ? 8 : 4);
      }
    };
    if (lies_before) lie();
    if (target.meet() != Target::Meeting::kMet) continue;
    if (!lies_before) lie();
    do_everything(target);
    lie();
    do_everything(target);
  }
}

}  // namespace
}  // namespace verbatim::direct
