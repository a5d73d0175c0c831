// SPDX-License-Identifier: Apache-2.0
#include "transport/qp_attributes.h"

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

using enum QpMask;

constexpr QpMask kEveryBit{0x3ff'ffff};

TEST(QpAttributes, AValueCountsOnlyWhereItIsNamed) {
  struct Case {
    QpMask bit;
    void (*spoil)(QpAttributes&);
  };
  const Case kCases[] = {
      {kPathMtu, [](QpAttributes& a) { a.path_mtu = wire::PathMtu::k4096; }},  // the port has less
      {kPathMtu, [](QpAttributes& a) { a.path_mtu = wire::PathMtu{0}; }},
      {kTimeout, [](QpAttributes& a) { a.timeout = 32; }},
      {kRetryCount, [](QpAttributes& a) { a.retry_count = 8; }},
      {kRnrRetry, [](QpAttributes& a) { a.rnr_retry = 8; }},
      {kMinRnrTimer, [](QpAttributes& a) { a.min_rnr_timer = 32; }},
      {kMaxReadAtomic, [](QpAttributes& a) { a.max_read_atomic = 129; }},
      {kMaxDestReadAtomic, [](QpAttributes& a) { a.max_dest_read_atomic = 129; }},
      {kDestQp, [](QpAttributes& a) { a.dest_qp = wire::QpNumber{0x100'0000}; }},
  };
  const auto check = [](QpMask mask, const QpAttributes& wanted) {
    return check_values(mask, wanted, wire::PathMtu::k2048).ok();
  };
  EXPECT_TRUE(check(kEveryBit, {}));
  for (const Case& c : kCases) {
    SCOPED_TRACE(static_cast<std::uint32_t>(c.bit));
    QpAttributes wanted;
    c.spoil(wanted);
    EXPECT_FALSE(check(c.bit, wanted));
    EXPECT_FALSE(check(kEveryBit, wanted));
    EXPECT_TRUE(
        check(QpMask(static_cast<std::uint32_t>(kEveryBit) & ~static_cast<std::uint32_t>(c.bit)),
              wanted));
  }
}

QpAttributes all_different() {
  return {.state = QpState::kReadyToSend,
          .current_state = QpState::kInit,
          .access = memory::Access::kRemoteRead,
          .qkey = wire::QKey{1},
          .path_mtu = wire::PathMtu::k4096,
          .timeout = 2,
          .retry_count = 3,
          .rnr_retry = 4,
          .min_rnr_timer = 5,
          .max_read_atomic = 6,
          .max_dest_read_atomic = 7,
          .sqd_notify = true,
          .receive_psn = wire::Psn(8),
          .send_psn = wire::Psn(9),
          .dest_qp = wire::QpNumber{10}};
}

/// How many of the values are the same in both, but for the two states.
int alike(const QpAttributes& a, const QpAttributes& b) {
  return (a.access == b.access) + (a.qkey == b.qkey) + (a.path_mtu == b.path_mtu) +
         (a.timeout == b.timeout) + (a.retry_count == b.retry_count) +
         (a.rnr_retry == b.rnr_retry) + (a.min_rnr_timer == b.min_rnr_timer) +
         (a.max_read_atomic == b.max_read_atomic) +
         (a.max_dest_read_atomic == b.max_dest_read_atomic) + (a.sqd_notify == b.sqd_notify) +
         (a.receive_psn == b.receive_psn) + (a.send_psn == b.send_psn) + (a.dest_qp == b.dest_qp);
}

TEST(QpAttributes, AreTakenOverOneByOneAsTheyAreNamed) {
  constexpr QpMask kValues[] = {
      kAccess,     kQKey,        kPathMtu,       kTimeout,           kRetryCount,
      kRnrRetry,   kMinRnrTimer, kMaxReadAtomic, kMaxDestReadAtomic, kSqdNotify,
      kReceivePsn, kSendPsn,     kDestQp};
  const QpAttributes wanted = all_different();
  QpAttributes into;
  adopt(into, kState | kCurrentState | kAddress | kPort | kPKeyIndex, wanted);
  EXPECT_EQ(alike(into, wanted), 0);
  int count = 0;
  for (const QpMask bit : kValues) {
    adopt(into, bit, wanted);
    EXPECT_EQ(alike(into, wanted), ++count) << static_cast<std::uint32_t>(bit);
  }
  EXPECT_EQ(count, 13);
  EXPECT_EQ(into.state, QpState::kReset) << "states are entered, not taken over";
  EXPECT_EQ(into.current_state, QpState::kReset);
}

}  // namespace
}  // namespace verbatim::transport
