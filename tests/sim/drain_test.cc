// SPDX-License-Identifier: Apache-2.0
// A send queue that is drained in the middle of its work, and goes on.
#include "test_cluster.h"

namespace verbatim::sim {
namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kWrites = 40;
constexpr std::size_t kOctets = 5000;

void post_writes(Endpoint& from, const Buffer& source, const Buffer& target, std::uint32_t first,
                 std::uint32_t count) {
  for (std::uint64_t i = first; i < first + count; ++i) {
    const memory::Sge sge = source.at(i * kOctets, kOctets);
    ASSERT_TRUE(from.qp(0)
                    .post_send({.wr_id = i,
                                .opcode = SendOpcode::kWrite,
                                .flags = SendFlags::kSignaled,
                                .list = {&sge, 1},
                                .remote_address = target.address + i * kOctets,
                                .rkey = target.key})
                    .ok());
  }
}

void expect_prefix(const std::vector<Completion>& completions) {
  for (std::size_t i = 0; i < completions.size(); ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
  }
}

TEST(Drain, UnderTrafficFinishesWhatBeganAndStartsNothing) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Cluster cluster(bad_network(), seed);
    add_endpoints(cluster, 2);
    Endpoint& drained = cluster.endpoint(0);
    Endpoint& peer = cluster.endpoint(1);
    for (Endpoint* endpoint : {&drained, &peer}) {
      (void)endpoint->create_qp(
          {.send_depth = 2 * kWrites, .receive_cq = kReceiveCq, .window_packets = 8});
    }
    connect(drained, 0, peer, 0, {.timeout = 8});
    std::vector<Buffer> sources;
    std::vector<Buffer> targets;
    for (Endpoint* endpoint : {&drained, &peer}) {
      sources.emplace_back(*endpoint, kWrites * kOctets);
      targets.emplace_back(*endpoint, kWrites * kOctets, kEverything);
      fill_random(sources.back().octets, prng);
    }
    post_writes(drained, sources[0], targets[1], 0, kWrites / 2);
    post_writes(peer, sources[1], targets[0], 0, kWrites);
    (void)run_until(
        cluster, [] { return false; }, cluster.now() + microseconds(60));
    EndpointQueuePair& qp = drained.qp(0);
    ASSERT_FALSE(qp.machine().has_no_sends());

    QpAttributes wanted;
    wanted.state = QpState::kSendQueueDrained;
    wanted.sqd_notify = true;
    ASSERT_TRUE(qp.modify(QpMask::kState | QpMask::kSqdNotify, wanted, nullptr).ok());
    post_writes(drained, sources[0], targets[1], kWrites / 2, kWrites / 2);
    bool told = false;
    ASSERT_TRUE(run_until(cluster, [&] {
      if (const auto event = qp.machine().poll_event())
        told = event == transport::QpEvent::kSendQueueDrained;
      return told;
    }));
    EXPECT_FALSE(is_draining(qp.machine()));
    EXPECT_EQ(qp.machine().in_flight(), 0U);
    auto done = collect(drained, kSendCq);
    EXPECT_LT(done.size(), kWrites / 2);
    const std::size_t landed = done.size() * kOctets;

    // The other direction continues; this one does not.
    run_until_quiet(cluster);
    EXPECT_EQ(collect(peer, kSendCq).size(), kWrites);
    EXPECT_TRUE(std::ranges::equal(sources[1].octets, targets[0].octets));
    EXPECT_TRUE(collect(drained, kSendCq).empty());
    EXPECT_TRUE(
        std::ranges::equal(sources[0].octets.first(landed), targets[1].octets.first(landed)));
    EXPECT_TRUE(std::ranges::all_of(targets[1].octets.subspan(landed),
                                    [](std::byte octet) { return octet == std::byte{0}; }));

    wanted.state = QpState::kReadyToSend;
    ASSERT_TRUE(qp.modify(QpMask::kState, wanted, nullptr).ok());
    run_until_quiet(cluster);
    const auto rest = collect(drained, kSendCq);
    done.insert(done.end(), rest.begin(), rest.end());
    EXPECT_EQ(done.size(), kWrites);
    expect_prefix(done);
    EXPECT_TRUE(std::ranges::equal(sources[0].octets, targets[1].octets));
  }
}

}  // namespace
}  // namespace verbatim::sim
