// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/performance_agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "fabric/node/test_node.h"
#include "wire/headers/test_octets.h"
#include "wire/management/port_counters.h"

namespace verbatim::fabric {
namespace {

using wire::PerformanceAttribute;
using wire::PortCounter;
using wire::test::hex;
using wire::test::Octets;

/// A request for a port; `selected` as in the attribute, CounterSelect2 above 16 bits.
struct Request {
  PerformanceAttribute attribute = PerformanceAttribute::kPortCounters;
  std::uint8_t port = 1;
  bool is_set = false;
  std::uint32_t selected = 0;
  std::uint8_t class_version = 1;
};

wire::Mad ask(Node& node, const Request& request) {
  wire::Mad mad{.header = {.mgmt_class = wire::MgmtClass::kPerformance,
                           .class_version = request.class_version,
                           .method = request.is_set ? wire::MadMethod::kSet : wire::MadMethod::kGet,
                           .attribute_id = static_cast<std::uint16_t>(request.attribute)}};
  const auto data = std::span(mad.data).subspan(40);
  data[1] = std::byte{request.port};
  data[2] = static_cast<std::byte>(request.selected >> 8);
  data[3] = static_cast<std::byte>(request.selected);
  data[18] = static_cast<std::byte>(request.selected >> 16);
  std::array<std::byte, wire::Mad::kSize> octets{};
  mad.emit(octets);
  answer_performance(node, octets);
  return wire::MadView::parse(octets)->value();
}

/// The first octets of the attribute in an answer.
Octets head(const wire::Mad& mad, std::size_t octets) {
  const auto data = std::span(mad.data).subspan(40, octets);
  return {data.begin(), data.end()};
}

TEST(PerformanceAgent, ItSaysWhatItCan) {
  Node node = test::host();
  const auto mad = ask(node, {.attribute = PerformanceAttribute::kClassPortInfo});
  EXPECT_EQ(mad.header.method, wire::MadMethod::kGetResp);
  EXPECT_EQ(mad.header.status, 0);
  EXPECT_EQ(head(mad, 8), hex("01 01 1300 00000008"))
      << "AllPortSelect, ExtendedWidth, PortXmitWait";
}

TEST(PerformanceAgent, CountersAreReadByPort) {
  Node node = test::switch_of(4);
  node.port(3).counts.add(PortCounter::kLinkDowned, 2);
  node.port(3).counts.add(PortCounter::kTransmitPackets, 5);
  node.port(3).counts.add(PortCounter::kTransmitWait, 6);
  const auto data = head(ask(node, {.port = 3}), 44);
  EXPECT_EQ(data[1], std::byte{3});
  EXPECT_EQ(data[7], std::byte{2});
  EXPECT_EQ(data[35], std::byte{5});
  EXPECT_EQ(data[43], std::byte{6});
  EXPECT_EQ(head(ask(node, {.port = 2}), 44)[7], std::byte{0});
}

TEST(PerformanceAgent, ACounterStaysAtItsLimit) {
  Node node = test::host();
  node.port(1).counts.add(PortCounter::kLinkDowned, 300);
  node.port(1).counts.add(PortCounter::kTransmitWords, 1ULL << 40);
  const auto data = head(ask(node, {}), 44);
  EXPECT_EQ(data[7], std::byte{0xff});
  EXPECT_EQ(Octets(data.begin() + 24, data.begin() + 28), hex("ffffffff"));
  const auto extended =
      head(ask(node, {.attribute = PerformanceAttribute::kPortCountersExtended}), 16);
  EXPECT_EQ(Octets(extended.begin() + 8, extended.end()), hex("0000010000000000"));
}

TEST(PerformanceAgent, OnlySelectedCountersAreReset) {
  Node node = test::host();
  node.port(1).counts.add(PortCounter::kSymbolErrors, 1);
  node.port(1).counts.add(PortCounter::kLinkDowned, 2);
  node.port(1).counts.add(PortCounter::kTransmitWait, 3);
  auto data = head(ask(node, {.is_set = true, .selected = 0x0004}), 44);
  EXPECT_EQ(data[5], std::byte{1});
  EXPECT_EQ(data[7], std::byte{0});
  EXPECT_EQ(data[43], std::byte{3});
  data = head(ask(node, {.is_set = true, .selected = 0x1'0001}), 44);
  EXPECT_EQ(data[5], std::byte{0});
  EXPECT_EQ(data[43], std::byte{0}) << "by CounterSelect2";
  node.port(1).counts.add(PortCounter::kLinkDowned);
  EXPECT_EQ(head(ask(node, {}), 44)[7], std::byte{1});
}

TEST(PerformanceAgent, TheTwoAttributesAreResetEachForItself) {
  Node node = test::host();
  node.port(1).counts.add(PortCounter::kReceivePackets, 9);
  (void)ask(node, {.is_set = true, .selected = 0xffff});
  EXPECT_EQ(head(ask(node, {}), 40)[39], std::byte{0});
  const auto extended =
      head(ask(node, {.attribute = PerformanceAttribute::kPortCountersExtended}), 40);
  EXPECT_EQ(extended[39], std::byte{9});
}

TEST(PerformanceAgent, Port255IsAllPorts) {
  Node node = test::switch_of(4);
  for (std::uint8_t port = 1; port <= 4; ++port) {
    node.port(port).counts.add(PortCounter::kLinkDowned, 100);
    node.port(port).counts.add(PortCounter::kReceivePackets, port);
  }
  auto data = head(ask(node, {.port = 255}), 44);
  EXPECT_EQ(data[39], std::byte{10});
  EXPECT_EQ(data[7], std::byte{0xff}) << "the sum has a limit, too";
  (void)ask(node, {.port = 255, .is_set = true, .selected = 0xffff});
  for (std::uint8_t port = 1; port <= 4; ++port) {
    EXPECT_EQ(head(ask(node, {.port = port}), 44)[39], std::byte{0});
  }
}

TEST(PerformanceAgent, DetailsHaveTheirOwnAttributes) {
  Node node = test::host();
  node.port(1).counts.add(PortCounter::kLoopingErrors, 7);
  node.port(1).counts.add(PortCounter::kInactiveDiscards, 8);
  EXPECT_EQ(head(ask(node, {.attribute = PerformanceAttribute::kPortReceiveErrorDetails}), 16)[15],
            std::byte{7});
  EXPECT_EQ(
      head(ask(node, {.attribute = PerformanceAttribute::kPortTransmitDiscardDetails}), 12)[5],
      std::byte{8});
}

TEST(PerformanceAgent, WhatThereIsNotItRefuses) {
  Node node = test::host();
  EXPECT_EQ(ask(node, {.port = 2}).header.status, 0x1c);
  EXPECT_EQ(ask(node, {.port = 0}).header.status, 0x1c) << "an adapter has no port 0";
  EXPECT_EQ(ask(node, {.attribute = PerformanceAttribute{0x10}}).header.status, 0x0c);
  EXPECT_EQ(ask(node, {.class_version = 2}).header.status, 0x04);
  EXPECT_EQ(
      ask(node, {.attribute = PerformanceAttribute::kClassPortInfo, .is_set = true}).header.status,
      0x0c);
}

}  // namespace
}  // namespace verbatim::fabric
