// SPDX-License-Identifier: Apache-2.0
// Requests that must not reach memory: each on a connection of its own, over a bad network.
#include <ostream>

#include "test_cluster.h"

namespace verbatim::sim {
namespace {

constexpr std::size_t kRegionOctets = 1024;
constexpr std::byte kUntouched{0x5a};
constexpr Access kAllRemote = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;

/// A request for the middle of a region that grants everything, and what makes it a bad one.
struct Attempt {
  const char* what;
  SendOpcode opcode = SendOpcode::kWrite;
  Access region = Access::kLocalWrite | kAllRemote;
  Access queue_pair = kAllRemote;
  std::int64_t offset = 64;  // from the region's first octet
  std::uint32_t octets = 8;
  std::uint32_t key_change = 0;  // exclusive or of the key
  bool other_domain = false;
  bool deregistered = false;
  WcStatus expected = WcStatus::kRemoteAccess;
};

std::ostream& operator<<(std::ostream& out, const Attempt& attempt) { return out << attempt.what; }

class BadAccess : public testing::TestWithParam<Attempt> {};

TEST_P(BadAccess, IsRefusedAndChangesNothing) {
  const Attempt& attempt = GetParam();
  Cluster cluster(bad_network(), 5);
  add_endpoints(cluster, 2);
  Endpoint& user = cluster.endpoint(0);
  Endpoint& owner = cluster.endpoint(1);
  Endpoint::QpSetup setup{.receive_cq = kReceiveCq};
  (void)user.create_qp(setup);
  if (attempt.other_domain) setup.domain = owner.open_domain();
  (void)owner.create_qp(setup);
  connect(user, 0, owner, 0, {.access = attempt.queue_pair, .timeout = 8});
  Buffer region(owner, kRegionOctets, attempt.region);
  std::ranges::fill(region.octets, kUntouched);
  Buffer mine(user, kRegionOctets);
  if (attempt.deregistered) {
    ASSERT_TRUE(owner.keys().deregister_region(region.key).ok());
  }

  const memory::Sge sge = mine.at(0, attempt.octets);
  const auto key = static_cast<std::uint32_t>(region.key) ^ attempt.key_change;
  ASSERT_TRUE(
      user.qp(0)
          .post_send({.opcode = attempt.opcode,
                      .list = {&sge, 1},
                      .remote_address = region.address + static_cast<std::uint64_t>(attempt.offset),
                      .rkey = wire::MemoryKey{key},
                      .compare_or_add = 1})
          .ok());
  run_until_quiet(cluster);
  const auto completions = collect(user, kSendCq);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, attempt.expected);
  EXPECT_EQ(owner.qp(0).machine().state(), QpState::kError);
  EXPECT_TRUE(owner.guards_are_intact());
  EXPECT_EQ(std::ranges::count(region.octets, kUntouched), std::ptrdiff_t{kRegionOctets});
  EXPECT_EQ(std::ranges::count(mine.octets, std::byte{0}), std::ptrdiff_t{kRegionOctets});
}

constexpr auto kNotEnabled = WcStatus::kRemoteInvalidRequest;
constexpr std::int64_t kLastEight = kRegionOctets - 8;

INSTANTIATE_TEST_SUITE_P(
    All, BadAccess,
    testing::Values(
        Attempt{.what = "WRITE without the right", .region = Access::kLocalWrite},
        Attempt{.what = "READ without the right",
                .opcode = SendOpcode::kRead,
                .region = Access::kLocalWrite | Access::kRemoteWrite},
        Attempt{.what = "atomic without the right",
                .opcode = SendOpcode::kFetchAdd,
                .region = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead},
        Attempt{.what = "WRITE on a connection that allows none",
                .queue_pair = Access::kRemoteRead,
                .expected = kNotEnabled},
        Attempt{.what = "READ on a connection that allows none",
                .opcode = SendOpcode::kRead,
                .queue_pair = Access::kRemoteWrite,
                .expected = kNotEnabled},
        Attempt{.what = "atomic on a connection that allows none",
                .opcode = SendOpcode::kFetchAdd,
                .queue_pair = Access::kRemoteWrite | Access::kRemoteRead,
                .expected = kNotEnabled},
        Attempt{.what = "one octet behind", .offset = kLastEight + 1},
        Attempt{
            .what = "READ one octet behind", .opcode = SendOpcode::kRead, .offset = kLastEight + 1},
        Attempt{.what = "one octet before", .offset = -1},
        Attempt{
            .what = "as much as there is, one octet late", .offset = 1, .octets = kRegionOctets},
        Attempt{.what = "another low key octet", .key_change = 0x01},
        Attempt{.what = "another key", .key_change = 0x4000},
        Attempt{.what = "another domain", .other_domain = true},
        Attempt{.what = "a region that is gone", .deregistered = true}));

}  // namespace
}  // namespace verbatim::sim
