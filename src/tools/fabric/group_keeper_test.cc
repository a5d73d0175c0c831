// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/group_keeper.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>

#include "fabric/test_fabric.h"
#include "wire/management/sa_message.h"

namespace verbatim::tools {
namespace {

using fabric::PortEnd;
using fabric::test::TestFabric;
using wire::MadMethod;
using wire::MulticastRecord;
using namespace std::chrono_literals;

wire::Gid group() {
  wire::Gid made;
  made.octets[0] = 0xff;
  made.octets[15] = 9;
  return made;
}

std::array<std::byte, wire::Mad::kSize> request(MadMethod method) {
  std::array<std::byte, wire::Mad::kSize> octets;
  wire::SaMessage{.method = method, .transaction = wire::TransactionId{1}}.emit(
      MulticastRecord{.group = group(), .join_state = wire::JoinState::kFullMember}, octets);
  return octets;
}

/// Hosts of a subnet, on the first of which a program answers for the administration.
struct GroupKeeperTest : testing::Test {
  TestFabric net{fabric::test::star("3")};
  GroupKeeper keeper{net.fabric};
  PortEnd host{};

  GroupKeeperTest() {
    net.bring_up(3);
    host = net.host("h1");
    (void)net.open(net.manager(), {.mgmt_class = wire::MgmtClass::kSubnetAdministration,
                                   .class_version = wire::SaHeader::kClassVersion,
                                   .methods = fabric::MethodMask().set(0x15)});
  }
  void join(std::uint32_t client) {
    auto octets = request(MadMethod::kSet);
    EXPECT_FALSE(keeper.handle_request(client, octets));
    keeper.handle_answer(client, request(MadMethod::kGetResp));
  }
  /// Whether the administration is told that the port leaves the group.
  bool has_left() {
    net.wait(10ms);
    const auto mad = net.take(net.manager());
    if (!mad) return false;
    const auto view = wire::MadView::parse(mad->octets);
    EXPECT_EQ(view->method(), MadMethod::kDelete);
    EXPECT_EQ(wire::record_in<MulticastRecord>(*view)->group, group());
    return true;
  }
};

TEST_F(GroupKeeperTest, APortLeavesAGroupWhenItsLastProgramHasEnded) {
  keeper.keep(1, host);
  keeper.keep(2, host);
  join(1);
  join(2);
  keeper.close(net.now, 1);
  EXPECT_FALSE(has_left());
  keeper.close(net.now, 2);
  EXPECT_TRUE(has_left());
  keeper.close(net.now, 2);
  EXPECT_FALSE(has_left());
}

TEST_F(GroupKeeperTest, PortsAreApart) {
  keeper.keep(1, host);
  keeper.keep(2, net.host("h2"));
  join(1);
  join(2);
  keeper.close(net.now, 1);
  EXPECT_TRUE(has_left());
}

TEST_F(GroupKeeperTest, WhatAProgramJoinsItselfIsItsOwn) {
  join(1);
  keeper.close(net.now, 1);
  EXPECT_FALSE(has_left());
}

}  // namespace
}  // namespace verbatim::tools
