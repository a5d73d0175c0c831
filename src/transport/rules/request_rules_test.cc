// SPDX-License-Identifier: Apache-2.0
#include "transport/rules/request_rules.h"

#include <gtest/gtest.h>

#include <cstring>

#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using memory::Access;
using wire::Feth;

constexpr RequestKind kKinds[] = {RequestKind::kSend,       RequestKind::kWrite,
                                  RequestKind::kRead,       RequestKind::kCompareSwap,
                                  RequestKind::kFetchAdd,   RequestKind::kFlush,
                                  RequestKind::kAtomicWrite};

/// Rights and resources by kind of request (IBA Vol 1, 9.7.4.1 and 9.7.5.1.2; annex A19).
struct Row {
  RequestKind kind;
  Access of_queue_pair;
  bool remembered;
};
constexpr Row kRows[] = {
    {RequestKind::kSend, Access::kNone, false},
    {RequestKind::kWrite, Access::kRemoteWrite, false},
    {RequestKind::kRead, Access::kRemoteRead, true},
    {RequestKind::kCompareSwap, Access::kRemoteAtomic, true},
    {RequestKind::kFetchAdd, Access::kRemoteAtomic, true},
    {RequestKind::kFlush, Access::kNone, true},
    {RequestKind::kAtomicWrite, Access::kRemoteWrite, true},
};

/// A responder's state and keys, and valid requests.
class RequestRulesTest : public testing::Test {
 protected:
  [[nodiscard]] Request good(RequestKind kind) {
    Request request{.kind = kind,
                    .flush = {.selectivity = Feth::kRange, .placement = Feth::kGlobalVisibility}};
    if (kind == RequestKind::kSend) return request;
    const auto reth = receiver_.reth(is_of_eight(kind) ? 8 : 64);
    request.key = reth.rkey;
    request.address = reth.address;
    request.octets = reth.dma_octets;
    return request;
  }
  [[nodiscard]] Verdict key_verdict(const Request& request) {
    return check_grant(request, ask(request)).verdict;
  }
  [[nodiscard]] KeyAnswer ask(const Request& request) {
    return ask_key(receiver_.arena().keys(), receiver_.state(), request);
  }
  [[nodiscard]] wire::MemoryKey region(Access access) {
    return receiver_.arena().region(access, Receiver::kRemote, 4096);
  }

  Receiver receiver_;
};

// ---- Rights ----

TEST_F(RequestRulesTest, AQueuePairMustAllowTheOperation) {
  constexpr Access kRights[] = {Access::kRemoteWrite, Access::kRemoteRead, Access::kRemoteAtomic};
  for (const Row& row : kRows) {
    for (unsigned mask = 0; mask < 8; ++mask) {
      Access granted = Access::kLocalWrite;
      for (unsigned i = 0; i < 3; ++i) {
        if ((mask >> i & 1) != 0) granted = granted | kRights[i];
      }
      receiver_.state().access = granted;
      const auto got = check_allowed(receiver_.state(), row.kind);
      EXPECT_EQ(got.accepted(), memory::allows(granted, row.of_queue_pair))
          << static_cast<int>(row.kind) << " with " << mask;
      if (!got.accepted()) {
        EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
        EXPECT_EQ(got.reason, Reason::kOperationNotEnabled);
      }
    }
  }
}

TEST_F(RequestRulesTest, WhatIsRememberedNeedsAPlaceToRememberIt) {
  for (const Row& row : kRows) {
    receiver_.state().replay_limit = 0;
    const auto got = check_allowed(receiver_.state(), row.kind);
    EXPECT_EQ(got.accepted(), !row.remembered) << static_cast<int>(row.kind);
    EXPECT_EQ(is_remembered(row.kind), row.remembered);
    if (row.remembered) {
      EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
      EXPECT_EQ(got.reason, Reason::kTooManyReads);
    }
    receiver_.state().replay_limit = 1;
    EXPECT_TRUE(check_allowed(receiver_.state(), row.kind).accepted());
  }
}

TEST_F(RequestRulesTest, AKeyMustGrantWhatTheRequestDoes) {
  constexpr Access kRights[] = {Access::kRemoteWrite, Access::kRemoteRead, Access::kRemoteAtomic,
                                Access::kFlushGlobal, Access::kFlushPersistent};
  for (const Row& row : kRows) {
    if (row.kind == RequestKind::kSend) continue;  // names no memory
    const Access needed =
        row.kind == RequestKind::kFlush ? Access::kFlushGlobal : row.of_queue_pair;
    for (const Access right : kRights) {
      Request request = good(row.kind);
      request.key = region(Access::kLocalWrite | right);
      EXPECT_EQ(key_verdict(request),
                right == needed ? Verdict::kAccepted : Verdict::kAccessRefused)
          << static_cast<int>(row.kind) << " with " << static_cast<int>(right);
      ASSERT_TRUE(receiver_.arena().registry().deregister_region(request.key).ok());
    }
  }
}

// ---- FLUSH (annex A19) ----

TEST_F(RequestRulesTest, AFlushNeedsTheRightForEachPlacement) {
  struct Placement {
    std::uint8_t placement;
    Access needed;
  };
  constexpr Placement kPlacements[] = {
      {1, Access::kFlushGlobal},
      {2, Access::kFlushPersistent},
      {3, Access::kFlushGlobal | Access::kFlushPersistent},
  };
  for (const auto& [placement, needed] : kPlacements) {
    for (const Access granted : {Access::kNone, Access::kFlushGlobal, Access::kFlushPersistent,
                                 Access::kFlushGlobal | Access::kFlushPersistent}) {
      Request request = good(RequestKind::kFlush);
      request.flush.placement = placement;
      request.key = region(granted);
      EXPECT_EQ(key_verdict(request),
                memory::allows(granted, needed) ? Verdict::kAccepted : Verdict::kAccessRefused)
          << static_cast<int>(placement) << " with " << static_cast<int>(granted);
      ASSERT_TRUE(receiver_.arena().registry().deregister_region(request.key).ok());
    }
  }
}

TEST_F(RequestRulesTest, AFlushWithReservedValuesIsInvalid) {
  for (std::uint8_t selectivity = 0; selectivity < 4; ++selectivity) {
    for (std::uint8_t placement = 0; placement < 16; ++placement) {
      Request request = good(RequestKind::kFlush);
      request.flush = {.selectivity = selectivity, .placement = placement};
      const auto got = check_form(request);
      const bool is_defined = selectivity <= 1 && placement >= 1 && placement <= 3;
      EXPECT_EQ(got.accepted(), is_defined) << int{selectivity} << " " << int{placement};
      if (!is_defined) {
        EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
        EXPECT_EQ(got.reason, Reason::kReservedValue);
      }
    }
  }
}

TEST_F(RequestRulesTest, AFlushOfAWholeRegionHasNoRange) {
  Request request = good(RequestKind::kFlush);
  request.address = 0;
  request.octets = ~0U;
  EXPECT_EQ(key_verdict(request), Verdict::kAccessRefused);
  request.flush.selectivity = Feth::kWholeRegion;
  EXPECT_EQ(key_verdict(request), Verdict::kAccepted);
  request.key = wire::MemoryKey{0};
  EXPECT_EQ(key_verdict(request), Verdict::kAccessRefused);
}

// ---- Lengths and alignment ----

TEST_F(RequestRulesTest, AtomicsAreOfEightOctets) {
  for (const RequestKind kind : kKinds) {
    for (const std::uint64_t octets : {0U, 4U, 7U, 8U, 9U, 16U}) {
      Request request = good(kind);
      request.octets = octets;
      const auto got = check_form(request);
      const bool expected = !is_of_eight(kind) || octets == 8;
      EXPECT_EQ(got.accepted(), expected) << static_cast<int>(kind) << " of " << octets;
      if (!expected) {
        EXPECT_EQ(got.reason, Reason::kBadPacketLength);
      }
    }
  }
}

TEST_F(RequestRulesTest, EightOctetsAreAtAMultipleOfEight) {
  for (const RequestKind kind : kKinds) {
    for (unsigned offset = 0; offset < 16; ++offset) {
      Request request = good(kind);
      request.address += offset;
      const auto got = check_form(request);
      const bool expected = !is_of_eight(kind) || offset % 8 == 0;
      EXPECT_EQ(got.accepted(), expected) << static_cast<int>(kind) << " at " << offset;
      if (!expected) {
        EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
        EXPECT_EQ(got.reason, Reason::kMisaligned);
      }
    }
  }
}

/// The first octet of a region may have any address in requests.
TEST_F(RequestRulesTest, ThePlaceOfEightOctetsIsAlignedAsWell) {
  auto& arena = receiver_.arena();
  const auto key =
      *arena.registry().register_region({.domain = kHome,
                                         .address = arena.address(Receiver::kRemote + 4),
                                         .octets = 64,
                                         .base = 0x1000,
                                         .access = kAllRights});
  Request request = good(RequestKind::kFetchAdd);
  request.key = key;
  request.address = 0x1008;
  ASSERT_TRUE(check_form(request).accepted());
  const auto got = check_grant(request, ask(request));
  EXPECT_EQ(got.verdict, Verdict::kInvalidRequest);
  EXPECT_EQ(got.reason, Reason::kMisaligned);
  request.kind = RequestKind::kRead;
  EXPECT_TRUE(check_grant(request, ask(request)).accepted());
}

TEST_F(RequestRulesTest, NoMessageIsLongerThanTwoToThe31) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 31;
  for (const RequestKind kind : {RequestKind::kWrite, RequestKind::kRead}) {
    Request request = good(kind);
    request.octets = kLongest;
    EXPECT_TRUE(check_form(request).accepted());
    request.octets = kLongest + 1;
    EXPECT_EQ(check_form(request).reason, Reason::kBadPacketLength);
    EXPECT_EQ(check_form(request).verdict, Verdict::kInvalidRequest);
  }
}

// ---- Keys ----

TEST_F(RequestRulesTest, AKeyIsOfTheDomainAndHoldsTheRange) {
  for (const RequestKind kind : kKinds) {
    if (kind == RequestKind::kSend) continue;
    Request request = good(kind);
    EXPECT_EQ(key_verdict(request), Verdict::kAccepted);
    request.address = receiver_.arena().address(Arena::kOctets) - request.octets + 8;
    EXPECT_EQ(key_verdict(request), Verdict::kAccessRefused) << "behind the end";
    request = good(kind);
    request.key = receiver_.arena().region(kAllRights, 0, Arena::kOctets, memory::DomainId{9});
    EXPECT_EQ(key_verdict(request), Verdict::kAccessRefused) << "another domain";
    ASSERT_TRUE(receiver_.arena().registry().deregister_region(request.key).ok());
  }
}

TEST_F(RequestRulesTest, APartOfARequestIsCheckedWhereItLies) {
  const Request request = good(RequestKind::kWrite);
  const auto grant = ask_key(receiver_.arena().keys(), receiver_.state(), request, 24, 8);
  ASSERT_TRUE(grant.ok());
  EXPECT_EQ(grant->address, request.address + 24);
}

// ---- Executing ----

TEST_F(RequestRulesTest, EightOctetsAreSwappedAddedAndStored) {
  const auto execute = [&](RequestKind kind, std::uint64_t compare, std::uint64_t operand) {
    Request request = good(kind);
    request.compare = compare;
    request.operand = operand;
    const auto place = ask(request);
    EXPECT_TRUE(check_grant(request, place).accepted());
    return execute_eight(request, place->local());
  };
  receiver_.set_remote_number(40);
  EXPECT_EQ(execute(RequestKind::kFetchAdd, 0, 2), 40U);
  EXPECT_EQ(receiver_.remote_number(), 42U);
  EXPECT_EQ(execute(RequestKind::kCompareSwap, 41, 7), 42U);
  EXPECT_EQ(receiver_.remote_number(), 42U) << "it was not equal";
  EXPECT_EQ(execute(RequestKind::kCompareSwap, 42, 7), 42U);
  EXPECT_EQ(receiver_.remote_number(), 7U);
  (void)execute(RequestKind::kAtomicWrite, 0, 9);
  EXPECT_EQ(receiver_.remote_number(), 9U);
}

TEST_F(RequestRulesTest, AFlushCountsAsAMessage) {
  receiver_.state().msn = 5;
  execute_flush(receiver_.state());
  EXPECT_EQ(receiver_.state().msn, 6U);
}

}  // namespace
}  // namespace verbatim::transport
