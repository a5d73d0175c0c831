// SPDX-License-Identifier: Apache-2.0
// Network paths that are cut, and restored or not.
#include "test_cluster.h"

namespace verbatim::sim {
namespace {

using std::chrono::microseconds;

constexpr std::uint8_t kTimeout = 8;
constexpr Duration kAckTimeout = Duration(4096LL << kTimeout);  // about a millisecond
constexpr std::uint8_t kRetryCount = 5;
constexpr std::uint32_t kWrites = 40;
constexpr std::size_t kWriteOctets = 3000;

/// Two connected endpoints, each with WRITEs to the other and receives that no message uses.
class Partition : public testing::Test {
 protected:
  Partition() {
    add_endpoints(cluster_, 2);
    for (std::size_t side = 0; side < 2; ++side) {
      (void)cluster_.endpoint(side).create_qp({.receive_cq = kReceiveCq, .window_packets = 4});
    }
    connect(cluster_.endpoint(0), 0, cluster_.endpoint(1), 0,
            {.timeout = kTimeout, .retry_count = kRetryCount});
    Prng prng(7);
    for (std::size_t side = 0; side < 2; ++side) {
      Endpoint& endpoint = cluster_.endpoint(side);
      sources_.emplace_back(endpoint, kWrites * kWriteOctets);
      targets_.emplace_back(endpoint, kWrites * kWriteOctets, kEverything);
      fill_random(sources_.back().octets, prng);
      for (std::uint64_t i = 0; i < kReceives; ++i) {
        EXPECT_TRUE(endpoint.qp(0).post_receive({.wr_id = i}).ok());
      }
    }
  }

  void post_writes(std::size_t side) {
    const Buffer& target = targets_[1 - side];
    for (std::uint64_t i = 0; i < kWrites; ++i) {
      const memory::Sge sge = sources_[side].at(i * kWriteOctets, kWriteOctets);
      ASSERT_TRUE(cluster_.endpoint(side)
                      .qp(0)
                      .post_send({.wr_id = i,
                                  .opcode = SendOpcode::kWrite,
                                  .flags = i % 2 == 0 ? SendFlags::kSignaled : SendFlags::kNone,
                                  .list = {&sge, 1},
                                  .remote_address = target.address + i * kWriteOctets,
                                  .rkey = target.key})
                      .ok());
    }
  }

  void set_cut(bool is_cut) {
    cluster_.network().cut(cluster_.endpoint(0).address(), cluster_.endpoint(1).address(), is_cut);
  }
  [[nodiscard]] bool is_lost(std::size_t side) {
    return cluster_.endpoint(side).qp(0).machine().state() == QpState::kError;
  }
  /// Runs until a few packets have gone, with more to send on both sides.
  void run_into_the_middle() {
    const Instant soon = cluster_.now() + microseconds(40);
    (void)run_until(
        cluster_, [] { return false; }, soon);
    ASSERT_FALSE(cluster_.endpoint(0).qp(0).machine().has_no_sends());
    ASSERT_FALSE(cluster_.endpoint(1).qp(0).machine().has_no_sends());
  }

  static constexpr std::uint64_t kReceives = 3;
  Cluster cluster_{Faults{.delay = microseconds(5)}, 3};
  std::vector<Buffer> sources_;
  std::vector<Buffer> targets_;
};

TEST_F(Partition, OneThatHealsInTimeIsNotNoticed) {
  post_writes(0);
  post_writes(1);
  run_into_the_middle();
  set_cut(true);
  (void)run_until(
      cluster_, [] { return false; }, cluster_.now() + (kRetryCount - 1) * kAckTimeout);
  set_cut(false);
  run_until_quiet(cluster_);
  for (std::size_t side = 0; side < 2; ++side) {
    const auto completions = collect(cluster_.endpoint(side), kSendCq);
    ASSERT_EQ(completions.size(), kWrites / 2);
    for (std::size_t i = 0; i < completions.size(); ++i) {
      EXPECT_EQ(completions[i].wr_id, 2 * i);
      EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
    }
    EXPECT_TRUE(std::ranges::equal(sources_[side].octets, targets_[1 - side].octets));
    EXPECT_TRUE(collect(cluster_.endpoint(side), kReceiveCq).empty());
  }
}

TEST_F(Partition, OneThatHealsAgainAndAgainSpendsNoRetryForEver) {
  post_writes(0);
  const auto& peer = cluster_.endpoint(1).qp(0).machine().responder_state();
  for (int i = 0; i < 5; ++i) {
    const wire::Psn before = peer.expected_psn;
    ASSERT_TRUE(run_until(cluster_, [&] { return peer.expected_psn != before; }));
    const Instant soon = cluster_.now() + microseconds(20);  // the acknowledgement arrives
    (void)run_until(
        cluster_, [] { return false; }, soon);
    ASSERT_FALSE(cluster_.endpoint(0).qp(0).machine().has_no_sends());
    set_cut(true);
    const Instant heals = cluster_.now() + 3 * kAckTimeout;
    (void)run_until(
        cluster_, [] { return false; }, heals);
    set_cut(false);
  }
  run_until_quiet(cluster_);
  EXPECT_EQ(collect(cluster_.endpoint(0), kSendCq).size(), kWrites / 2);
  EXPECT_FALSE(is_lost(0));
  EXPECT_TRUE(std::ranges::equal(sources_[0].octets, targets_[1].octets));
}

TEST_F(Partition, OneThatStaysEndsTheConnectionWithinTheRetryLimitsTime) {
  post_writes(0);
  post_writes(1);
  run_into_the_middle();
  set_cut(true);
  const Instant cut_at = cluster_.now();
  ASSERT_TRUE(run_until(cluster_, [&] { return is_lost(0) && is_lost(1); }));
  // The first try and kRetryCount more, each with the whole timeout to be answered in.
  EXPECT_GE(cluster_.now() - cut_at, kRetryCount * kAckTimeout);
  EXPECT_LE(cluster_.now() - cut_at, (kRetryCount + 1) * kAckTimeout + microseconds(100));
  for (std::size_t side = 0; side < 2; ++side) {
    SCOPED_TRACE(side);
    const auto sends = collect(cluster_.endpoint(side), kSendCq);
    const auto failed = std::ranges::find_if(
        sends, [](const Completion& c) { return c.status != WcStatus::kSuccess; });
    ASSERT_NE(failed, sends.end());
    // Behind it, signaled or not, every request that was posted, flushed and in order.
    std::uint64_t next = failed->wr_id;
    for (auto it = failed; it != sends.end(); ++it) {
      EXPECT_EQ(it->wr_id, next++);
      EXPECT_EQ(it->status, it == failed ? WcStatus::kRetryExceeded : WcStatus::kFlushed);
    }
    EXPECT_EQ(next, kWrites);
    const auto receives = collect(cluster_.endpoint(side), kReceiveCq);
    ASSERT_EQ(receives.size(), kReceives);
    for (std::uint64_t i = 0; i < kReceives; ++i) {
      EXPECT_EQ(receives[i].wr_id, i);
      EXPECT_EQ(receives[i].status, WcStatus::kFlushed);
    }
    // The data of every request that was reported as done has arrived.
    const std::size_t done = failed->wr_id * kWriteOctets;
    EXPECT_TRUE(std::ranges::equal(sources_[side].octets.first(done),
                                   targets_[1 - side].octets.first(done)));
  }
  // Too late: the connection has failed.
  set_cut(false);
  run_until_quiet(cluster_);
  EXPECT_TRUE(collect(cluster_.endpoint(0), kSendCq).empty());
  EXPECT_TRUE(collect(cluster_.endpoint(1), kSendCq).empty());
}

TEST_F(Partition, OneSideOnlyIsEnough) {
  post_writes(0);
  set_cut(true);
  ASSERT_TRUE(run_until(cluster_, [&] { return is_lost(0); }));
  EXPECT_EQ(cluster_.now().since_start(), (kRetryCount + 1) * kAckTimeout);
  EXPECT_FALSE(is_lost(1));  // it has nothing to ask, so it learns nothing
}

}  // namespace
}  // namespace verbatim::sim
