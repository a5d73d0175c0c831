// SPDX-License-Identifier: Apache-2.0
// Receives that several connections share, and connections that choose among shared receives.
#include "test_cluster.h"

namespace verbatim::sim {
namespace {

constexpr std::size_t kOctets = 3000;
constexpr std::uint32_t kMessages = 40;

/// The n-th message of a sender; its length depends on the number.
std::size_t length_of(std::uint32_t number) { return (number * 937) % (kOctets + 1); }

void post_message(Endpoint& from, const Buffer& source, std::uint32_t number, std::uint32_t name,
                  wire::SrqNumber remote_srq = {}) {
  const memory::Sge sge = source.at(number * kOctets, length_of(number));
  ASSERT_TRUE(from.qp(0)
                  .post_send({.wr_id = number,
                              .opcode = SendOpcode::kSendImm,
                              .flags = SendFlags::kSignaled,
                              .list = {&sge, 1},
                              .immediate = wire::Immediate{name},
                              .remote_srq = remote_srq})
                  .ok());
}

/// A hub with one shared receive queue and a connection to each of three senders.
TEST(SharedQueue, ServesAllItsConnectionsAndSaysWhenItRunsLow) {
  constexpr std::uint32_t kSenders = 3;
  constexpr std::uint32_t kDepth = 16;
  constexpr std::uint32_t kLow = 4;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Cluster cluster(bad_network(), prng.next());
    add_endpoints(cluster, kSenders + 1);
    Endpoint& hub = cluster.endpoint(kSenders);
    ASSERT_EQ(hub.create_shared_queue(kDepth, 1), 0U);
    std::vector<Buffer> sources;
    for (std::uint32_t i = 0; i < kSenders; ++i) {
      Endpoint& sender = cluster.endpoint(i);
      (void)sender.create_qp({.receive_cq = kReceiveCq});
      (void)hub.create_qp({.receive_cq = kReceiveCq, .shared_queue = 0});
      connect(sender, 0, hub, i, {.timeout = 8});
      sources.emplace_back(sender, kMessages * kOctets);
      fill_random(sources.back().octets, prng);
      for (std::uint32_t n = 0; n < kMessages; ++n)
        post_message(sender, sources[i], n, i << 16 | n);
    }
    Buffer places(hub, kDepth * kOctets);
    auto& queue = hub.shared_queue(0);
    const auto post = [&](std::uint64_t place) {
      const memory::Sge sge = places.at(place * kOctets, kOctets);
      ASSERT_TRUE(queue.post({.wr_id = place, .list = {&sge, 1}}).ok());
    };
    std::vector<std::uint64_t> idle;
    for (std::uint64_t place = 0; place < kDepth; ++place) idle.push_back(place);
    const auto refill = [&] {
      for (const std::uint64_t place : idle) post(place);
      idle.clear();
      ASSERT_TRUE(queue.arm_limit(kLow).ok());
    };
    refill();

    std::vector<std::uint32_t> next(kSenders);
    std::uint32_t low_events = 0;
    std::uint32_t received = 0;
    const auto take = [&](const Completion& completion) {
      ASSERT_EQ(completion.status, WcStatus::kSuccess);
      const std::uint32_t from = completion.imm_or_key >> 16;
      const std::uint32_t number = completion.imm_or_key & 0xffff;
      ASSERT_LT(from, kSenders);
      EXPECT_EQ(completion.qp, hub.number_of(from));
      EXPECT_EQ(number, next[from]++) << "once and in order for each connection";
      EXPECT_EQ(completion.octets, length_of(number));
      EXPECT_FALSE(std::ranges::count(idle, completion.wr_id)) << "a receive was used twice";
      EXPECT_TRUE(
          std::ranges::equal(places.octets.subspan(completion.wr_id * kOctets, length_of(number)),
                             sources[from].octets.subspan(number * kOctets, length_of(number))));
      idle.push_back(completion.wr_id);
      ++received;
    };
    ASSERT_TRUE(run_until(cluster, [&] {
      for (const Completion& completion : collect(hub, kReceiveCq)) take(completion);
      if (queue.take_limit_event()) {
        ++low_events;
        EXPECT_LT(queue.waiting_count(), kLow);
        refill();
      }
      return received == kSenders * kMessages;
    }));
    run_until_quiet(cluster);
    // Every refill but the last was used up to the limit before the next.
    EXPECT_GE(low_events, (kSenders * kMessages - kDepth) / kDepth);
    for (std::uint32_t i = 0; i < kSenders; ++i) {
      EXPECT_EQ(collect(cluster.endpoint(i), kSendCq).size(), kMessages);
    }
    EXPECT_TRUE(hub.guards_are_intact());
  }
}

/// An XRC initiator, and a target at a host with two shared receive queues.
class Xrc : public testing::Test {
 protected:
  Xrc() {
    EXPECT_EQ(to_.create_shared_queue(64, 1), 0U);
    EXPECT_EQ(to_.create_shared_queue(64, 1), 1U);
    (void)from_.create_qp({.type = QpType::kXrcInitiator, .receive_cq = kReceiveCq});
    (void)to_.create_qp(
        {.type = QpType::kXrcTarget, .receive_depth = 256, .receive_cq = kReceiveCq});
    connect(from_, 0, to_, 0, {.timeout = 8});
    Prng prng(9);
    fill_random(source_.octets, prng);
  }
  /// Even receives go to the first shared queue, odd ones to the second.
  void post_receives(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const memory::Sge sge = places_.at(i * kOctets, kOctets);
      ASSERT_TRUE(to_.shared_queue(i % 2).post({.wr_id = i, .list = {&sge, 1}}).ok());
    }
  }

  Cluster cluster_{bad_network(), 21};
  Endpoint& from_ = [this]() -> Endpoint& {
    add_endpoints(cluster_, 2);
    return cluster_.endpoint(0);
  }();
  Endpoint& to_ = cluster_.endpoint(1);
  Buffer source_{from_, kMessages* kOctets};
  Buffer places_{to_, 2 * kMessages* kOctets};
};

TEST_F(Xrc, AMessageGoesToTheSharedQueueThatItNames) {
  post_receives(2 * kMessages);
  const auto queue_of = [](std::uint32_t number) { return number * 7 / 3 % 2; };
  for (std::uint32_t n = 0; n < kMessages; ++n) {
    post_message(from_, source_, n, n, wire::SrqNumber{queue_of(n)});
  }
  run_until_quiet(cluster_);
  const auto received = collect(to_, kReceiveCq);
  ASSERT_EQ(received.size(), kMessages);
  for (std::uint32_t n = 0; n < kMessages; ++n) {
    const Completion& completion = received[n];
    ASSERT_EQ(completion.status, WcStatus::kSuccess);
    EXPECT_EQ(completion.imm_or_key, n);
    EXPECT_EQ(completion.wr_id % 2, queue_of(n));
    ASSERT_EQ(completion.octets, length_of(n));
    EXPECT_TRUE(std::ranges::equal(places_.octets.subspan(completion.wr_id * kOctets, length_of(n)),
                                   source_.octets.subspan(n * kOctets, length_of(n))));
  }
  EXPECT_EQ(collect(from_, kSendCq).size(), kMessages);
}

TEST_F(Xrc, AnEmptySharedQueueHoldsUpTheConnectionUntilItIsFilled) {
  post_message(from_, source_, 1, 1, wire::SrqNumber{0});
  EXPECT_FALSE(run_until(
      cluster_, [&] { return from_.qp(0).machine().has_no_sends(); },
      cluster_.now() + std::chrono::milliseconds(5)));
  post_receives(1);
  EXPECT_TRUE(run_until(cluster_, [&] { return from_.qp(0).machine().has_no_sends(); }));
  EXPECT_EQ(collect(to_, kReceiveCq).size(), 1U);
}

TEST_F(Xrc, AQueueThatDoesNotExistEndsTheConnection) {
  post_receives(4);
  post_message(from_, source_, 1, 1, wire::SrqNumber{0});
  post_message(from_, source_, 2, 2, wire::SrqNumber{2});
  run_until_quiet(cluster_);
  const auto sent = collect(from_, kSendCq);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
  EXPECT_EQ(sent[1].status, WcStatus::kRemoteInvalidRequest);
  EXPECT_EQ(from_.qp(0).machine().state(), QpState::kError);
  EXPECT_EQ(to_.qp(0).machine().state(), QpState::kError);
}

}  // namespace
}  // namespace verbatim::sim
