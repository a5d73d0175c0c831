// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/trap_queue.h"

#include <gtest/gtest.h>

#include <chrono>

namespace verbatim::fabric {
namespace {

using std::chrono::milliseconds;
constexpr Duration kInterval = milliseconds(1000);
constexpr TrapQueue::Kind kLinkChange{.number = wire::TrapNumber::kLinkStateChange};

Instant at(int ms) { return Instant::at(milliseconds(ms)); }

TEST(TrapQueue, ATrapIsRepeatedUntilItIsRepressed) {
  TrapQueue traps;
  EXPECT_FALSE(traps.next_due());
  traps.raise(at(5), kLinkChange, {.issuer = wire::Lid{7}});
  ASSERT_EQ(traps.next_due(), at(5));
  const auto first = traps.poll(at(5), kInterval);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->notice.issuer, wire::Lid{7});
  EXPECT_FALSE(traps.poll(at(5), kInterval)) << "once per interval";
  EXPECT_EQ(traps.next_due(), at(1005));
  const auto second = traps.poll(at(1005), kInterval);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->transaction, first->transaction);
  EXPECT_FALSE(traps.handle_repress(at(1006), wire::TransactionId{999}));
  EXPECT_TRUE(traps.handle_repress(at(1006), first->transaction));
  EXPECT_FALSE(traps.next_due());
}

TEST(TrapQueue, AnEventAfterTheTrapWasSentIsSentOnceMoreAfterTheRepress) {
  TrapQueue traps;
  traps.raise(at(0), kLinkChange, {});
  const auto first = traps.poll(at(0), kInterval);
  traps.raise(at(1), kLinkChange, {.issuer = wire::Lid{8}});
  EXPECT_FALSE(traps.poll(at(1), kInterval));
  EXPECT_TRUE(traps.handle_repress(at(2), first->transaction));
  const auto again = traps.poll(at(1000), kInterval);
  ASSERT_TRUE(again);
  EXPECT_NE(again->transaction, first->transaction);
  EXPECT_EQ(again->notice.issuer, wire::Lid{8});
  EXPECT_TRUE(traps.handle_repress(at(1001), again->transaction));
  EXPECT_EQ(traps.size(), 0U);
}

TEST(TrapQueue, AnEventBeforeTheTrapWasSentIsPartOfIt) {
  TrapQueue traps;
  traps.raise(at(0), kLinkChange, {});
  traps.raise(at(0), kLinkChange, {});
  const auto trap = traps.poll(at(0), kInterval);
  EXPECT_TRUE(traps.handle_repress(at(1), trap->transaction));
  EXPECT_EQ(traps.size(), 0U);
}

TEST(TrapQueue, EventsOfSeveralPortsAreSeveralTraps) {
  TrapQueue traps;
  for (std::uint8_t port = 1; port <= 3; ++port) {
    traps.raise(at(0), {.number = wire::TrapNumber::kBadPKeyAtSwitchPort, .subject = port}, {});
  }
  EXPECT_EQ(traps.size(), 3U);
}

TEST(TrapQueue, ATrapThatIsNeverRepressedIsGivenUp) {
  TrapQueue traps;
  traps.raise(at(0), kLinkChange, {});
  unsigned sends = 0;
  for (int ms = 0; traps.next_due(); ms += 1000) {
    ASSERT_TRUE(traps.poll(at(ms), kInterval));
    ++sends;
  }
  EXPECT_EQ(sends, TrapQueue::kSendsMax);
}

TEST(TrapQueue, ItHasALimit) {
  TrapQueue traps;
  for (unsigned port = 0; port < 200; ++port) {
    traps.raise(at(0), {.subject = static_cast<std::uint8_t>(port)}, {});
  }
  EXPECT_EQ(traps.size(), TrapQueue::kTrapsMax);
}

}  // namespace
}  // namespace verbatim::fabric
