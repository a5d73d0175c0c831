// SPDX-License-Identifier: Apache-2.0
#include "loop/agenda.h"

#include <gtest/gtest.h>

#include <vector>

namespace verbatim::loop {
namespace {

struct FakeQp {
  int its_number;
  AgendaEntry entry{};
  AgendaEntry& agenda_entry() noexcept { return entry; }
  int number() const noexcept { return its_number; }
};
using Qps = std::vector<FakeQp*>;

Instant at(int microseconds) { return Instant::at(std::chrono::microseconds(microseconds)); }

class AgendaTest : public ::testing::Test {
 protected:
  Qps take_round() {
    const auto round = agenda.begin_round();
    Qps taken(round.begin(), round.end());
    agenda.end_round();
    return taken;
  }

  Agenda<FakeQp> agenda;
  FakeQp a{3}, b{2}, c{1};
};

TEST_F(AgendaTest, ARoundHasEachListedQueuePairOnceInOrder) {
  agenda.list(a);
  agenda.list(b);
  agenda.list(a);
  agenda.list_first(c);
  agenda.list_first(b);  // is listed already
  EXPECT_EQ(take_round(), (Qps{&c, &a, &b}));
  EXPECT_TRUE(agenda.listed().empty());
  agenda.list(a);
  EXPECT_EQ(take_round(), Qps{&a});
}

TEST_F(AgendaTest, AQueuePairThatIsListedDuringARoundComesInTheNext) {
  agenda.list(a);
  const auto round = agenda.begin_round();
  ASSERT_EQ(round.size(), 1U);
  agenda.list(a);
  EXPECT_EQ(round.size(), 1U);
  agenda.end_round();
  EXPECT_TRUE(agenda.has_any());
  EXPECT_EQ(take_round(), Qps{&a});
  EXPECT_FALSE(agenda.has_any());
}

TEST_F(AgendaTest, AQueuePairThatWaitsForAReceiveIsListedWhenItNeedNot) {
  agenda.note_waiting(a);
  agenda.note_waiting(b);
  agenda.note_waiting(a);
  EXPECT_TRUE(agenda.has_any());
  agenda.look_at_waiting([&](FakeQp& qp) { return &qp == &a; });
  EXPECT_EQ(take_round(), Qps{&b});
  EXPECT_TRUE(agenda.has_any());  // the other one still waits
  agenda.look_at_waiting([](FakeQp&) { return false; });
  EXPECT_EQ(take_round(), Qps{&a});
  EXPECT_FALSE(agenda.has_any());
}

TEST_F(AgendaTest, TimersFireInTheOrderOfTheirTimes) {
  EXPECT_EQ(agenda.next_timer(), Instant::never());
  EXPECT_TRUE(agenda.set_timer(a, at(30)));
  EXPECT_TRUE(agenda.set_timer(b, at(10)));
  EXPECT_TRUE(agenda.set_timer(c, at(20)));
  EXPECT_EQ(agenda.next_timer(), at(10));
  EXPECT_EQ(agenda.take_due(at(9)), nullptr);
  EXPECT_EQ(agenda.take_due(at(20)), &b);
  EXPECT_EQ(agenda.take_due(at(20)), &c);
  EXPECT_EQ(agenda.take_due(at(20)), nullptr);
  EXPECT_EQ(agenda.next_timer(), at(30));
}

TEST_F(AgendaTest, EqualTimersFireInTheOrderOfTheNumbers) {
  for (FakeQp* qp : {&a, &b, &c}) EXPECT_TRUE(agenda.set_timer(*qp, at(10)));
  EXPECT_EQ(agenda.take_due(at(10)), &c);
  EXPECT_EQ(agenda.take_due(at(10)), &b);
  EXPECT_EQ(agenda.take_due(at(10)), &a);
}

TEST_F(AgendaTest, ATimerThatIsSetMovesToAnEarlierTimeOnly) {
  EXPECT_TRUE(agenda.set_timer(a, at(30)));
  EXPECT_FALSE(agenda.set_timer(a, at(40)));
  EXPECT_EQ(agenda.next_timer(), at(30));
  EXPECT_TRUE(agenda.set_timer(a, at(20)));
  EXPECT_EQ(agenda.take_due(at(100)), &a);
  EXPECT_EQ(agenda.take_due(at(100)), nullptr);
  EXPECT_FALSE(agenda.set_timer(a, Instant::never()));
  EXPECT_EQ(agenda.next_timer(), Instant::never());
  EXPECT_TRUE(agenda.set_timer(a, at(40)));
}

TEST_F(AgendaTest, AQueuePairThatGoesIsNowhereAnyMore) {
  agenda.list(a);
  agenda.list(b);
  agenda.note_waiting(a);
  agenda.set_timer(a, at(10));
  agenda.remove(a);
  EXPECT_EQ(agenda.next_timer(), Instant::never());
  agenda.look_at_waiting([](FakeQp&) { return false; });
  EXPECT_EQ(take_round(), Qps{&b});
}

}  // namespace
}  // namespace verbatim::loop
