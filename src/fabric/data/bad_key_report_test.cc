// SPDX-License-Identifier: Apache-2.0
#include "fabric/data/bad_key_report.h"

#include <gtest/gtest.h>

#include "fabric/data/test_subnet.h"
#include "wire/management/notice.h"

namespace verbatim::fabric {
namespace {

using Key = BadKeyReport::Key;
using test::TestSubnet;
using namespace std::chrono_literals;

BadKeyReport report(Key key, std::uint32_t count = 1) {
  return {.key = key,
          .count = count,
          .last = {.source = wire::Lid{3}, .key = 0x8005, .dest_qp = wire::QpNumber{0x123}}};
}

/// The traps that the subnet manager on h0 gets in this time, without repressing them.
std::vector<wire::Notice> traps_of(TestSubnet& net, Duration time) {
  std::vector<wire::Notice> traps;
  net.wait(time);
  while (const auto user = net.take(net.manager())) {
    const auto mad = wire::MadView::parse(user->octets);
    if (!mad || mad->method() != wire::MadMethod::kTrap) continue;
    traps.push_back(wire::Notice::from(wire::SmpView::parse(*mad)->value().data));
  }
  return traps;
}

TEST(BadKeyReport, ThePortCountsEachKeyAndTellsItsManager) {
  TestSubnet net(test::star("3"));
  (void)traps_of(net, 1s);
  net.fabric.report_bad_keys(net.now, net.host("h2"), report(Key::kPKey, 5));
  const PortStatus status = net.fabric.port_status(net.host("h2"));
  EXPECT_EQ(status.pkey_violations, 5);
  EXPECT_EQ(status.qkey_violations, 0);
  EXPECT_EQ(net.fabric.drop_count(DropReason::kBadPKey), 5U);
  const auto traps = traps_of(net, 5ms);
  ASSERT_EQ(traps.size(), 1U);
  EXPECT_EQ(traps[0].number, wire::TrapNumber::kBadPKey);
  EXPECT_EQ(traps[0].details, report(Key::kPKey).last.details());
  net.fabric.report_bad_keys(net.now, net.host("h2"), report(Key::kQKey));
  EXPECT_EQ(net.fabric.port_status(net.host("h2")).qkey_violations, 1);
  ASSERT_TRUE(net.fabric.poll_change());
}

TEST(BadKeyReport, TheCountersStopAtTheirLargestValue) {
  TestSubnet net(test::star("2"));
  for (const std::uint32_t count : {65'530U, 3U, 4'000'000'000U, 4'000'000'000U}) {
    net.fabric.report_bad_keys(net.now, net.host("h1"), report(Key::kQKey, count));
  }
  EXPECT_EQ(net.fabric.port_status(net.host("h1")).qkey_violations, 0xffff);
}

TEST(BadKeyReport, ManyReportsAreFewTraps) {
  TestSubnet net(test::star("2"));
  (void)traps_of(net, 1s);
  for (int i = 0; i < 1'000; ++i) {
    net.fabric.report_bad_keys(net.now, net.host("h1"), report(Key::kPKey));
    net.wait(1us);
  }
  EXPECT_EQ(traps_of(net, 5ms).size(), 1U);
}

TEST(BadKeyReport, ANodeWithoutPowerCountsNothing) {
  TestSubnet net(test::star("2"));
  net.fabric.set_power(net.now, net.node("h1"), false);
  net.fabric.report_bad_keys(net.now, net.host("h1"), report(Key::kPKey));
  EXPECT_EQ(net.fabric.drop_count(DropReason::kBadPKey), 0U);
}

}  // namespace
}  // namespace verbatim::fabric
