// SPDX-License-Identifier: Apache-2.0
// Queue pairs that are connected with themselves, with their neighbours, with all others; and
// networks of finite speed.
#include "sim/history.h"
#include "test_cluster.h"

namespace verbatim::sim {
namespace {

TEST(Topology, AQueuePairConnectedToItselfTalksToItself) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(bad_network(), seed);
    add_endpoints(cluster, 1);
    const auto qp = cluster.endpoint(0).create_qp({.receive_cq = kReceiveCq});
    connect(cluster.endpoint(0), qp, cluster.endpoint(0), qp, {.timeout = 8});
    Traffic traffic(cluster);
    traffic.add({}, 0, qp, 0, qp, seed);
    EXPECT_EQ(traffic.run(), "");
    EXPECT_FALSE(traffic.any_connection_failed());
  }
}

TEST(Topology, TwoQueuePairsOfOneEndpointTalkToEachOther) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Cluster cluster(bad_network(), seed);
    add_endpoints(cluster, 1);
    Endpoint& endpoint = cluster.endpoint(0);
    const auto a = endpoint.create_qp({.receive_cq = kReceiveCq});
    const auto b = endpoint.create_qp({.receive_cq = kReceiveCq});
    connect(endpoint, a, endpoint, b, {.timeout = 8});
    Traffic traffic(cluster);
    traffic.add({}, 0, a, 0, b, seed);
    traffic.add({}, 0, b, 0, a, seed + 1000);
    EXPECT_EQ(traffic.run(), "");
    EXPECT_FALSE(traffic.any_connection_failed());
  }
}

TEST(Topology, EightEndpointsTalkAllToAll) {
  constexpr std::size_t kCount = 8;
  Cluster cluster(bad_network(), 8);
  add_endpoints(cluster, kCount);
  Traffic traffic(cluster);
  for (std::size_t a = 0; a < kCount; ++a) {
    for (std::size_t b = a + 1; b < kCount; ++b) {
      Endpoint& first = cluster.endpoint(a);
      Endpoint& second = cluster.endpoint(b);
      const auto a_qp = first.create_qp({.receive_cq = kReceiveCq});
      const auto b_qp = second.create_qp({.receive_cq = kReceiveCq});
      connect(first, a_qp, second, b_qp, {.timeout = 8});
      traffic.add({.request_count = 12}, a, a_qp, b, b_qp, a * kCount + b);
      traffic.add({.request_count = 12}, b, b_qp, a, a_qp, b * kCount + a);
    }
  }
  EXPECT_EQ(traffic.run(), "");
  EXPECT_FALSE(traffic.any_connection_failed());
}

TEST(Topology, ASlowWireIsFilledAndNotOverrunForEver) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    HistoryOptions options;
    options.seed = seed;
    options.faults.octets_per_second = 20'000'000;
    options.faults.buffer_octets = 30'000;
    options.connection.timeout = 10;
    options.pair_count = 2;
    options.workload = {.request_count = 24, .message_octets_max = 12'000, .may_fail = true};
    const auto result = run_history(options);
    EXPECT_EQ(result.complaint, "");
    EXPECT_TRUE(result.every_request_done);
    // Both directions carry data, and no wire carries more than its rate.
    const auto seconds = std::chrono::duration<double>(result.duration).count();
    EXPECT_GT(2 * seconds * 20e6, static_cast<double>(result.delivered_octets));
  }
}

}  // namespace
}  // namespace verbatim::sim
