// SPDX-License-Identifier: Apache-2.0
// Messages of an unreliable connection that arrive before their receives are posted.
#include "loop/late_receive.h"

#include "test_cluster.h"

namespace verbatim::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMtu = 1024;
constexpr std::size_t kOctets = 16 * kMtu;

class LateReceiveOfConnection : public ::testing::Test {
 protected:
  void SetUp() override {
    add_endpoints(cluster, 2);
    for (std::size_t i = 0; i < 2; ++i) {
      (void)cluster.endpoint(i).create_qp({.type = QpType::kUc, .receive_cq = kReceiveCq});
    }
    connect(cluster.endpoint(0), 0, cluster.endpoint(1), 0, {.mtu = wire::PathMtu::k1024});
    source.emplace(cluster.endpoint(0), kOctets);
    target.emplace(cluster.endpoint(1), kOctets, kEverything);
    Prng prng(1);
    fill_random(source->octets, prng);
  }

  void post(SendOpcode opcode, std::size_t from, std::size_t count, std::size_t to = 0) {
    const memory::Sge sge = source->at(from, count);
    ASSERT_TRUE(cluster.endpoint(0)
                    .qp(0)
                    .post_send({.opcode = opcode,
                                .list = {&sge, 1},
                                .remote_address = target->address + to,
                                .rkey = target->key,
                                .immediate = wire::Immediate{7}})
                    .ok());
  }
  void post_receive(std::uint64_t id, std::size_t to, std::size_t count) {
    const memory::Sge sge = target->at(to, count);
    ASSERT_TRUE(cluster.endpoint(1).qp(0).post_receive({.wr_id = id, .list = {&sge, 1}}).ok());
  }
  void run_for(Duration time) {
    (void)run_until(
        cluster, [] { return false; }, cluster.now() + time);
  }
  /// The receives that have completed since the last call, each with all octets of its message.
  std::vector<std::uint64_t> received() {
    std::vector<std::uint64_t> ids;
    for (const Completion& completion : collect(cluster.endpoint(1), kReceiveCq)) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      ids.push_back(completion.wr_id);
    }
    return ids;
  }
  bool arrived(std::size_t from, std::size_t count, std::size_t to) const {
    return std::ranges::equal(source->octets.subspan(from, count),
                              target->octets.subspan(to, count));
  }
  bool is_untouched() const {
    return std::ranges::all_of(target->octets,
                               [](std::byte octet) { return octet == std::byte{}; });
  }
  std::uint64_t messages_lost() {
    return cluster.endpoint(1).qp(0).machine().receiver().uc().counters().messages_lost;
  }

  using Ids = std::vector<std::uint64_t>;
  Cluster cluster{Faults{}, 1};
  std::optional<Buffer> source;
  std::optional<Buffer> target;
};

TEST_F(LateReceiveOfConnection, AllPacketsOfASendWaitForTheReceive) {
  post(SendOpcode::kSend, 0, 2 * kMtu);
  post(SendOpcode::kSend, 2 * kMtu, 3 * kMtu);
  run_for(milliseconds(1));
  EXPECT_EQ(received(), Ids{});
  post_receive(0, 0, 2 * kMtu);
  run_for(milliseconds(1));
  EXPECT_EQ(received(), Ids{0});
  EXPECT_TRUE(arrived(0, 2 * kMtu, 0));
  post_receive(1, 2 * kMtu, 3 * kMtu);
  run_until_quiet(cluster);
  EXPECT_EQ(received(), Ids{1});
  EXPECT_TRUE(arrived(2 * kMtu, 3 * kMtu, 2 * kMtu));
  EXPECT_EQ(messages_lost(), 0U);
}

/// The WRITE names the memory of the receive. It was posted last, so its octets remain.
TEST_F(LateReceiveOfConnection, AWriteDoesNotOvertakeASendThatWaits) {
  post(SendOpcode::kSend, 0, 100);
  post(SendOpcode::kWrite, 200, 100);
  run_for(milliseconds(1));
  EXPECT_TRUE(is_untouched());
  post(SendOpcode::kWrite, 400, 50, 50);  // comes while the others wait
  run_for(milliseconds(1));
  EXPECT_TRUE(is_untouched());
  post_receive(0, 0, 100);
  run_until_quiet(cluster);
  EXPECT_EQ(received(), Ids{0});
  EXPECT_TRUE(arrived(200, 50, 0));
  EXPECT_TRUE(arrived(400, 50, 50));
}

TEST_F(LateReceiveOfConnection, AWriteBehindASendThatIsGivenUpIsExecuted) {
  post(SendOpcode::kSend, 0, 2 * kMtu);
  post(SendOpcode::kWrite, 200, 100);
  run_until_quiet(cluster);
  EXPECT_GE(cluster.now() - Instant{}, loop::LateReceive::kPatience);
  EXPECT_LT(cluster.now() - Instant{}, 2 * loop::LateReceive::kPatience);
  EXPECT_EQ(messages_lost(), 1U);
  EXPECT_TRUE(arrived(200, 100, 0));
  post_receive(0, kMtu, 100);
  post(SendOpcode::kSend, 300, 100);
  run_until_quiet(cluster);
  EXPECT_EQ(received(), Ids{0});
  EXPECT_TRUE(arrived(300, 100, kMtu));
}

TEST_F(LateReceiveOfConnection, AWriteWithAnImmediateWaitsForItsReceive) {
  post(SendOpcode::kWriteImm, 0, 100);
  run_for(milliseconds(1));
  EXPECT_EQ(received(), Ids{});
  post_receive(0, 0, 0);
  run_for(milliseconds(1));
  EXPECT_EQ(received(), Ids{0});
  EXPECT_TRUE(arrived(0, 100, 0));

  post(SendOpcode::kWriteImm, kMtu, 3 * kMtu, kMtu);
  run_for(milliseconds(1));
  EXPECT_EQ(received(), Ids{});
  post_receive(1, 0, 0);
  run_until_quiet(cluster);
  EXPECT_EQ(received(), Ids{1});
  EXPECT_TRUE(arrived(kMtu, 3 * kMtu, kMtu));
  EXPECT_EQ(messages_lost(), 0U);
}

}  // namespace
}  // namespace verbatim::sim
