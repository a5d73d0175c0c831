// SPDX-License-Identifier: Apache-2.0
// Windows that are bound and taken away through send queues while a peer uses them, over a bad
// network.
#include "memory/window.h"
#include "test_cluster.h"

namespace verbatim::sim {
namespace {

constexpr std::size_t kRegionOctets = 4096;
constexpr std::size_t kWindowAt = 1000;
constexpr std::size_t kWindowOctets = 2000;

/// The owner has a region and an unbound window; the user has data for it.
class Windows : public testing::TestWithParam<std::uint64_t> {
 protected:
  Windows() {
    for (Endpoint* endpoint : {&user_, &owner_}) {
      (void)endpoint->create_qp({.receive_cq = kReceiveCq});
    }
    connect(user_, 0, owner_, 0, {.mtu = wire::PathMtu::k512, .timeout = 8});
    Prng prng(GetParam());
    fill_random(source_.octets, prng);
    auto window = owner_.keys().allocate_window(owner_.domain(), memory::KeyKind::kWindowType2B);
    EXPECT_TRUE(window.ok());
    window_ = *window;
    bound_key_ = memory::KeyRegistry::next_key(window_);
    EXPECT_TRUE(owner_.qp(0).post_receive({.wr_id = 5}).ok());
  }

  /// Posts a request, runs until it completes, and returns its status.
  WcStatus run(Endpoint& at, SendRequest request) {
    request.flags = SendFlags::kSignaled;
    EXPECT_TRUE(at.qp(0).post_send(request).ok());
    run_until_quiet(cluster_);
    const auto completions = collect(at, kSendCq);
    EXPECT_EQ(completions.size(), 1U);
    return completions.empty() ? WcStatus::kGeneral : completions[0].status;
  }
  WcStatus bind() {
    return run(owner_, {.opcode = SendOpcode::kBindWindow,
                        .bind = {.window_key = window_,
                                 .new_key = bound_key_,
                                 .region_key = region_.key,
                                 .address = region_.address + kWindowAt,
                                 .octets = kWindowOctets,
                                 .access = Access::kRemoteWrite}});
  }
  WcStatus write(std::size_t offset, std::size_t octets) {
    const memory::Sge sge = source_.at(offset, octets);
    return run(user_, {.opcode = SendOpcode::kWrite,
                       .list = {&sge, 1},
                       .remote_address = region_.address + offset,
                       .rkey = bound_key_});
  }
  WcStatus write_whole() { return write(kWindowAt, kWindowOctets); }
  [[nodiscard]] bool has_arrived() {
    return std::ranges::equal(region_.octets.subspan(kWindowAt, kWindowOctets),
                              source_.octets.subspan(kWindowAt, kWindowOctets));
  }
  void expect_refusal(WcStatus status) {
    EXPECT_EQ(status, WcStatus::kRemoteAccess);
    EXPECT_EQ(user_.qp(0).machine().state(), QpState::kError);
    EXPECT_EQ(owner_.qp(0).machine().state(), QpState::kError);
    EXPECT_EQ(owner_.qp(0).machine().poll_event(), transport::QpEvent::kAccessError);
  }

  Cluster cluster_{bad_network(), GetParam()};
  Endpoint& user_ = [this]() -> Endpoint& {
    add_endpoints(cluster_, 2);
    return cluster_.endpoint(0);
  }();
  Endpoint& owner_ = cluster_.endpoint(1);
  Buffer source_{user_, kRegionOctets};
  Buffer region_{owner_, kRegionOctets, Access::kLocalWrite | Access::kBindWindow};
  wire::MemoryKey window_{};
  wire::MemoryKey bound_key_{};
};

TEST_P(Windows, GrantNothingBeforeTheyAreBound) {
  expect_refusal(write_whole());
  EXPECT_FALSE(has_arrived());
}

TEST_P(Windows, GrantTheirRangeOnceTheyAreBound) {
  ASSERT_EQ(bind(), WcStatus::kSuccess);
  EXPECT_EQ(write_whole(), WcStatus::kSuccess);
  EXPECT_TRUE(has_arrived());
  expect_refusal(write(kWindowAt + 1, kWindowOctets));
  EXPECT_EQ(region_.octets[kWindowAt + kWindowOctets], std::byte{0});
}

TEST_P(Windows, GrantNothingAfterALocalInvalidate) {
  ASSERT_EQ(bind(), WcStatus::kSuccess);
  ASSERT_EQ(run(owner_, {.opcode = SendOpcode::kLocalInvalidate, .invalidate_key = bound_key_}),
            WcStatus::kSuccess);
  expect_refusal(write_whole());
  EXPECT_FALSE(has_arrived());
}

TEST_P(Windows, GrantNothingAfterASendWithInvalidate) {
  ASSERT_EQ(bind(), WcStatus::kSuccess);
  EXPECT_EQ(write_whole(), WcStatus::kSuccess);
  EXPECT_EQ(run(user_, {.opcode = SendOpcode::kSendInvalidate, .invalidate_key = bound_key_}),
            WcStatus::kSuccess);
  const auto received = collect(owner_, kReceiveCq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].wr_id, 5U);
  EXPECT_EQ(received[0].imm_or_key, static_cast<std::uint32_t>(bound_key_));
  EXPECT_TRUE(has_arrived());
  std::ranges::fill(region_.octets, std::byte{0});
  expect_refusal(write_whole());
  EXPECT_FALSE(has_arrived());
}

TEST_P(Windows, OfAnotherConnectionGrantNothing) {
  ASSERT_EQ(bind(), WcStatus::kSuccess);
  const auto other = user_.create_qp({.receive_cq = kReceiveCq});
  const auto peer = owner_.create_qp({.receive_cq = kReceiveCq});
  connect(user_, other, owner_, peer, {.timeout = 8});
  const memory::Sge sge = source_.at(kWindowAt, kWindowOctets);
  ASSERT_TRUE(user_.qp(other)
                  .post_send({.opcode = SendOpcode::kWrite,
                              .list = {&sge, 1},
                              .remote_address = region_.address + kWindowAt,
                              .rkey = bound_key_})
                  .ok());
  run_until_quiet(cluster_);
  EXPECT_FALSE(has_arrived());
  const auto refused = collect(user_, kSendCq);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(user_.qp(other).machine().state(), QpState::kError);
  EXPECT_EQ(write_whole(), WcStatus::kSuccess);  // the rightful one is unharmed
}

INSTANTIATE_TEST_SUITE_P(Seeds, Windows, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace verbatim::sim
