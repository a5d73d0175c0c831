// SPDX-License-Identifier: Apache-2.0
#include "connect/neighbour_search.h"

#include "connect/test_host.h"

namespace verbatim::connect {
namespace {

using namespace test;

/// A question whose answer the test gives.
struct Answer {
  device::Neighbour state = device::Neighbour::kSought;
  int repeats = 0;
};
class Question final : public NeighbourQuestion {
 public:
  explicit Question(Answer& answer) : answer_(answer) {}
  [[nodiscard]] device::Neighbour answer() override { return answer_.state; }
  void repeat() override { ++answer_.repeats; }

 private:
  Answer& answer_;
};

struct NeighbourSearchTest : testing::Test {
  Network network;
  FakeHost host{network, 1, {gid(1)}};
  FakePair pair;
  NeighbourSearch search;
  const Instant start = Instant::at(1s);

  /// An id that waits for a neighbour.
  std::unique_ptr<Id> seeker() {
    host.finds_neighbours = false;
    auto id = host.make_id(pair);
    EXPECT_TRUE(id->resolve_address({}, endpoint(2, 5), 1s));
    return id;
  }
  bool add(Id& id, Answer& answer, Duration patience) {
    return search.add(id, host.sought.route, std::make_unique<Question>(answer), start + patience);
  }
};

TEST_F(NeighbourSearchTest, ANeighbourThatAnswersFinishesTheId) {
  Answer answer;
  const auto id = seeker();
  EXPECT_TRUE(add(*id, answer, 1s));
  EXPECT_TRUE(search.look(start));
  EXPECT_EQ(id->state(), IdState::kResolving);
  answer.state = device::Neighbour::kKnown;
  EXPECT_FALSE(search.look(start));
  host.expect(EventKind::kAddressResolved);
}

TEST_F(NeighbourSearchTest, ANeighbourWithoutAnEntryIsBehindARouter) {
  Answer answer{.state = device::Neighbour::kUnknown};
  const auto id = seeker();
  EXPECT_TRUE(add(*id, answer, 1s));
  EXPECT_FALSE(search.look(start));
  host.expect(EventKind::kAddressResolved);
}

TEST_F(NeighbourSearchTest, TheQuestionIsRepeatedUntilTheDeadline) {
  Answer answer{.state = device::Neighbour::kFailed};
  const auto id = seeker();
  EXPECT_TRUE(add(*id, answer, 1s));
  EXPECT_TRUE(search.look(start));
  EXPECT_TRUE(search.look(start + 999ms));
  EXPECT_EQ(answer.repeats, 2);
  EXPECT_FALSE(search.look(start + 1s));
  EXPECT_EQ(host.expect(EventKind::kAddressFailed)->error, Error::kTimedOut);
}

TEST_F(NeighbourSearchTest, OneLookServesAllAndTheFirstAsksForIt) {
  Answer found{.state = device::Neighbour::kKnown};
  Answer sought;
  const auto first = seeker();
  EXPECT_TRUE(add(*first, found, 1s));
  const auto second = seeker();
  EXPECT_FALSE(add(*second, sought, 1s));
  EXPECT_TRUE(search.look(start));
  EXPECT_EQ(first->state(), IdState::kAddressResolved);
  EXPECT_EQ(second->state(), IdState::kResolving);
  EXPECT_FALSE(search.look(start + 2s));
  const auto third = seeker();
  EXPECT_TRUE(add(*third, found, 1s));  // the looks have ended
  EXPECT_FALSE(search.look(start));
}

TEST_F(NeighbourSearchTest, AnIdThatWasRemovedIsNotFinished) {
  Answer answer{.state = device::Neighbour::kKnown};
  const auto id = seeker();
  EXPECT_TRUE(add(*id, answer, 1s));
  search.remove(*id);
  EXPECT_FALSE(search.look(start));
  EXPECT_EQ(id->state(), IdState::kResolving);
}

}  // namespace
}  // namespace verbatim::connect
