// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/agent_table.h"

#include <gtest/gtest.h>

#include <set>

#include "fabric/mads/test_mads.h"

namespace verbatim::fabric {
namespace {

using test::claim;
using test::kClient;
using test::kVendor;
using wire::MgmtClass;
using wire::QpNumber;

constexpr ClientId kOther{8};

/// The agent that gets this datagram on the queue pair of its class.
const MadAgent* receiver(const AgentTable& table, const test::Header& header,
                         QpNumber qpn = QpNumber::kGsi) {
  const auto octets = test::datagram(header);
  return table.find(qpn, wire::MadView::parse(octets).value());
}

TEST(AgentTable, AMethodBelongsToOneAgent) {
  AgentTable table;
  const auto first = table.add(kClient, claim(MgmtClass::kPerformance, {1, 2}));
  ASSERT_TRUE(first);
  const auto second = table.add(kOther, claim(MgmtClass::kPerformance, {2, 3}));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), Errc::kAddressInUse);
  EXPECT_TRUE(table.add(kOther, claim(MgmtClass::kPerformance, {3})));
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kGet}), *first);
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kSend})->client, kOther);
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kTrap}), nullptr);
  EXPECT_EQ(receiver(table, {.class_version = 2}), nullptr);
  EXPECT_EQ(receiver(table, {.mgmt_class = MgmtClass::kCommunication}), nullptr);
}

TEST(AgentTable, AMethodIsFreeAgainWhenItsAgentIsRemoved) {
  AgentTable table;
  table.remove(**table.add(kClient, claim(MgmtClass::kPerformance, {1, 2})));
  EXPECT_EQ(receiver(table, {}), nullptr);
  EXPECT_FALSE(table.is_claimed(MgmtClass::kPerformance));
  EXPECT_TRUE(table.add(kOther, claim(MgmtClass::kPerformance, {1})));
  EXPECT_TRUE(table.is_claimed(MgmtClass::kPerformance));
}

TEST(AgentTable, RemovingAnAgentLeavesTheMethodsOfOthers) {
  AgentTable table;
  const MadAgent* const first = *table.add(kClient, claim(MgmtClass::kPerformance, {1}));
  const MadAgent* const second = *table.add(kClient, claim(MgmtClass::kPerformance, {2}));
  table.remove(*first);
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kSet}), second);
}

TEST(AgentTable, AnAgentWithoutMethodsGetsNoRequests) {
  AgentTable table;
  EXPECT_TRUE(table.add(kClient, claim(MgmtClass::kPerformance, {})));
  EXPECT_TRUE(table.add(kClient, {}));
  EXPECT_EQ(receiver(table, {}), nullptr);
}

TEST(AgentTable, VendorsShareAClassByTheirOui) {
  AgentTable table;
  const MadAgent* const ours = *table.add(kClient, claim(kVendor, {1}));
  Registration others = claim(kVendor, {1});
  others.oui = {0x00, 0x02, 0xc9};
  EXPECT_TRUE(table.add(kOther, others));
  EXPECT_EQ(receiver(table, {.mgmt_class = kVendor}), ours);
  Registration nameless = claim(MgmtClass{0x4f}, {1});
  nameless.oui = {};
  EXPECT_EQ(table.add(kClient, nameless).error(), Errc::kInvalidArgument);
}

TEST(AgentTable, AnAnswerBelongsToTheAgentThatItsTransactionNames) {
  AgentTable table;
  const MadAgent* const asker = *table.add(kClient, {});
  ASSERT_TRUE(table.add(kOther, claim(MgmtClass::kPerformance, {1})));
  const auto transaction = static_cast<std::uint64_t>(asker->number) << 32;
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kGetResp, .transaction = transaction}),
            asker);
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kTrapRepress, .transaction = transaction}),
            asker);
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kGetResp}), nullptr);
  EXPECT_EQ(receiver(table, {.method = wire::MadMethod::kGetResp, .transaction = transaction},
                     QpNumber::kSmi),
            nullptr);
}

TEST(AgentTable, AClassFitsItsQueuePairItsVersionAndItsRmpp) {
  AgentTable table;
  Registration wrong = claim(MgmtClass::kSubnetLidRouted, {1});
  wrong.qpn = QpNumber::kGsi;
  EXPECT_EQ(table.add(kClient, wrong).error(), Errc::kInvalidArgument);
  wrong = claim(MgmtClass::kPerformance, {1});
  wrong.qpn = QpNumber::kSmi;
  EXPECT_EQ(table.add(kClient, wrong).error(), Errc::kInvalidArgument);
  wrong.qpn = QpNumber{2};
  EXPECT_EQ(table.add(kClient, wrong).error(), Errc::kInvalidArgument);
  EXPECT_EQ(table.add(kClient, claim(MgmtClass{0x50}, {1})).error(), Errc::kInvalidArgument);
  wrong = claim(MgmtClass::kPerformance, {1}, RmppMode::kPort);
  EXPECT_EQ(table.add(kClient, wrong).error(), Errc::kInvalidArgument);
  wrong.rmpp = RmppMode::kNone;
  wrong.class_version = 0x83;
  EXPECT_EQ(table.add(kClient, wrong).error(), Errc::kInvalidArgument);
  EXPECT_TRUE(table.add(kClient, claim(MgmtClass::kSubnetDirectedRoute, {1})));
  EXPECT_TRUE(table.add(kClient, claim(MgmtClass::kSubnetAdministration, {1}, RmppMode::kPort)));
}

TEST(AgentTable, AClientHasThirtyTwoAgentsWithTheLowestFreeNumbers) {
  AgentTable table;
  for (std::uint32_t id = 0; id < AgentTable::kAgentsMax; ++id) {
    EXPECT_EQ((*table.add(kClient, {}))->id, AgentId{id});
  }
  EXPECT_EQ(table.add(kClient, {}).error(), Errc::kNoMemory);
  EXPECT_TRUE(table.add(kOther, {}));
  table.remove(*table.find(kClient, AgentId{5}));
  EXPECT_EQ(table.find(kClient, AgentId{5}), nullptr);
  EXPECT_EQ((*table.add(kClient, {}))->id, AgentId{5});
  EXPECT_EQ(table.find(kClient, AgentId{32}), nullptr);
}

TEST(AgentTable, ARefusedRegistrationClaimsNothing) {
  AgentTable table;
  for (std::uint32_t id = 0; id < AgentTable::kAgentsMax; ++id) (void)table.add(kClient, {});
  EXPECT_FALSE(table.add(kClient, claim(MgmtClass::kPerformance, {1})));
  EXPECT_TRUE(table.add(kOther, claim(MgmtClass::kPerformance, {1})));
}

TEST(AgentTable, NumbersOfAgentsAreNotUsedAgainSoon) {
  AgentTable table;
  std::set<AgentNumber> numbers;
  for (int i = 0; i < 1000; ++i) {
    const MadAgent* const agent = *table.add(kClient, {});
    EXPECT_TRUE(numbers.insert(agent->number).second);
    EXPECT_NE(agent->number, AgentNumber{});
    table.remove(*agent);
  }
}

}  // namespace
}  // namespace verbatim::fabric
