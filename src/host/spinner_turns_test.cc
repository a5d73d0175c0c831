// SPDX-License-Identifier: Apache-2.0
#include "host/spinner_turns.h"

#include <gtest/gtest.h>

namespace verbatim::host {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart = Instant::at(1h);

/// Completions until the next question.
int find_until_due(SpinnerTurns& turns) {
  int count = 0;
  while (!turns.is_due()) {
    turns.note_success();
    ++count;
  }
  return count;
}

/// A thread that is asked after each completion, with the time that it takes to come.
class Spinner {
 public:
  /// Whether the thread yields when a completion has come after `wait`.
  bool yields_after(Duration wait) {
    if (find_until_due(turns_) > 1) ADD_FAILURE() << "asked more seldom than at each completion";
    return ask_after(wait);
  }
  bool ask_after(Duration wait) {
    at_ = at_ + wait;
    return turns_.wants_yield(at_);
  }
  void yield_for(Duration time) {
    turns_.note_yield(at_, at_ + time);
    at_ = at_ + time;
  }
  /// The yields between one try without a yield and the next.
  int yields_between_tries() {
    int count = 0;
    while (count < 10'000 && yields_after(100us)) {
      yield_for(5us);
      ++count;
    }
    return count;
  }

  /// From now on it is asked at each completion, and tries whether they come without a yield.
  void become_slow() {
    find_until_due(turns_);
    (void)ask_after(0us);
    find_until_due(turns_);
    EXPECT_FALSE(ask_after(4ms)) << "its peer may run now";
  }
  SpinnerTurns& turns() { return turns_; }

 private:
  SpinnerTurns turns_;
  Instant at_ = kStart;
};

TEST(SpinnerTurns, AreNotTakenWhileCompletionsComeQuickly) {
  Spinner spinner;
  (void)find_until_due(spinner.turns());
  (void)spinner.ask_after(0us);
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(find_until_due(spinner.turns()), 15);
    EXPECT_FALSE(spinner.ask_after(100us));
  }
}

TEST(SpinnerTurns, AreTakenWhenEachCompletionTakesLong) {
  Spinner spinner;
  spinner.become_slow();
  EXPECT_TRUE(spinner.yields_after(1ms));
}

TEST(SpinnerTurns, AreNotTakenAfterOneLongWait) {
  Spinner spinner;
  spinner.become_slow();
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(spinner.yields_after(1us));
  EXPECT_EQ(find_until_due(spinner.turns()), 15) << "asked as seldom as before";
}

TEST(SpinnerTurns, AreLeftOutForATryMoreAndMoreSeldom) {
  Spinner spinner;
  spinner.become_slow();
  int before = 0;
  for (int i = 0; i < 20; ++i) {
    const int yields = spinner.yields_between_tries();
    EXPECT_TRUE(yields == 2 * before || yields == 4096 || before == 0) << yields;
    before = yields;
  }
  EXPECT_EQ(before, 4096);
}

TEST(SpinnerTurns, EndWithATryInWhichCompletionsComeQuickly) {
  Spinner spinner;
  spinner.become_slow();
  (void)spinner.yields_between_tries();
  (void)spinner.yields_between_tries();
  (void)spinner.yields_between_tries();  // a try has begun
  for (int i = 0; i < 16; ++i) EXPECT_FALSE(spinner.yields_after(1us));
  EXPECT_EQ(find_until_due(spinner.turns()), 15);
}

TEST(SpinnerTurns, LeaveHalfOfTheTimeToTheThread) {
  Spinner spinner;
  spinner.become_slow();
  ASSERT_TRUE(spinner.yields_after(1ms));
  spinner.yield_for(4ms);
  EXPECT_FALSE(spinner.yields_after(3ms));
  EXPECT_TRUE(spinner.yields_after(1ms) || spinner.yields_after(1ms)) << "a try may come between";
}

TEST(SpinnerTurns, AreNotTakenByAThreadThatYieldsWhileItPolls) {
  Spinner spinner;
  spinner.become_slow();
  for (int i = 0; i < 100; ++i) {
    spinner.turns().note_rest();
    spinner.turns().note_success();
    EXPECT_FALSE(spinner.turns().is_due());
  }
}

TEST(SpinnerTurns, AreTakenByAThreadThatIsAwayAfterEachCompletion) {
  Spinner spinner;
  spinner.become_slow();
  spinner.turns().note_look(kStart, true);
  spinner.turns().note_look(kStart + 200us, false);  // it has spun on memory
  spinner.turns().note_rest();
  spinner.turns().note_success();
  EXPECT_TRUE(spinner.turns().is_due());
}

}  // namespace
}  // namespace verbatim::host
