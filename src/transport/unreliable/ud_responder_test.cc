// SPDX-License-Identifier: Apache-2.0
#include "transport/unreliable/ud_responder.h"

#include <gtest/gtest.h>

#include <vector>

#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using wire::Psn;

constexpr wire::QKey kOurKey{0x0123'4567};
constexpr wire::QpNumber kSender{0x00'5566};

class UdResponderTest : public testing::Test {
 protected:
  explicit UdResponderTest(bool shared = false, std::uint32_t lane_depth = Receiver::kDepth)
      : parts_(shared, lane_depth), responder_(&parts_.state(), parts_.landing()) {
    parts_.state().qkey = kOurKey;
  }

  wire::PacketHeaders headers(Operation operation = Operation::kSendOnly) {
    auto made = request_headers(wire::Transport::kUd, operation, Psn(next_psn_++));
    made.deth = {.qkey = kOurKey, .source_qp = kSender};
    return made;
  }
  void deliver(const wire::PacketHeaders& made, std::span<const std::byte> payload) {
    responder_.handle_request(TestPacket(made, payload).view(),
                              std::span<const std::byte, kGrhOctets>(network_header_));
  }

  Receiver parts_;
  UdResponder responder_;
  Octets network_header_ = octets_of(kGrhOctets, 77);
  std::uint32_t next_psn_ = 9000;  // any number: datagrams have no order
};

TEST_F(UdResponderTest, ADatagramComesWithItsNetworkHeaderInFront) {
  const auto id = parts_.post_receive(100);
  auto made = headers(Operation::kSendOnlyImm);
  made.bth.solicited = true;
  made.imm_dt.immediate = wire::Immediate{0x0506'0708};
  deliver(made, octets_of(30));
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(completions[0].opcode, WcOpcode::kReceive);
  EXPECT_EQ(completions[0].octets, 70U);
  EXPECT_EQ(completions[0].source_qp, kSender);
  EXPECT_EQ(completions[0].qp, kOurQp);
  EXPECT_EQ(completions[0].flags, WcFlags::kGrh | WcFlags::kWithImm);
  EXPECT_EQ(completions[0].imm_or_key, 0x0506'0708U);
  EXPECT_TRUE(completions[0].solicited);
  EXPECT_EQ(parts_.arena().copy(0, 40), network_header_);
  EXPECT_EQ(parts_.arena().copy(40, 30), octets_of(30));
  EXPECT_EQ(parts_.arena().copy(70, 30), Octets(30));
  EXPECT_EQ(responder_.counters().requests, 1U);
}

TEST_F(UdResponderTest, TheCompletionHasTheKindOfTheNetworkHeader) {
  for (const bool is_ipv6 : {false, true}) {
    network_header_.assign(kGrhOctets, std::byte{0});
    (is_ipv6 ? network_header_[0] = std::byte{0x60} : network_header_[20] = std::byte{0x45});
    parts_.post_receive(100);
    deliver(headers(), octets_of(30));
    const auto completions = parts_.completions();
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(has(completions[0].flags, WcFlags::kIpv4), !is_ipv6);
  }
}

TEST_F(UdResponderTest, TheCompletionOfANativeDatagramHasItsLidsAndLevel) {
  network_header_.assign(kGrhOctets, std::byte{0});
  const auto origin_of = [&](const wire::LocalRoute& route) {
    parts_.post_receive(100);
    responder_.handle_request(TestPacket(headers(), octets_of(4)).view(),
                              std::span<const std::byte, kGrhOctets>(network_header_), route);
    return parts_.completions().at(0).origin();
  };
  const DatagramOrigin origin = origin_of({.source = wire::Lid{0xbeef},
                                           .destination = wire::Lid{0x1f85},
                                           .level = wire::ServiceLevel{15}});
  EXPECT_EQ(origin.source, wire::Lid{0xbeef});
  EXPECT_EQ(origin.level, wire::ServiceLevel{15});
  EXPECT_EQ(origin.path_bits, 0x05) << "the low seven bits";
  EXPECT_EQ(origin_of({.source = wire::Lid{1}, .destination = wire::Lid{0xc003}}).path_bits, 0)
      << "a group has no paths";
}

TEST_F(UdResponderTest, ADatagramIsScatteredOverTheList) {
  parts_.post_receive(
      {parts_.arena().sge(0, 10), parts_.arena().sge(1000, 50), parts_.arena().sge(2000, 50)});
  const Octets data = octets_of(40);
  deliver(headers(), data);
  ASSERT_EQ(parts_.completions().size(), 1U);
  Octets all = network_header_;
  all.insert(all.end(), data.begin(), data.end());
  EXPECT_EQ(parts_.arena().copy(0, 10), Octets(all.begin(), all.begin() + 10));
  EXPECT_EQ(parts_.arena().copy(1000, 50), Octets(all.begin() + 10, all.begin() + 60));
  EXPECT_EQ(parts_.arena().copy(2000, 20), Octets(all.begin() + 60, all.end()));
}

TEST_F(UdResponderTest, AnEmptyDatagramIsFortyOctets) {
  parts_.post_receive(40);
  deliver(headers(), {});
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].octets, 40U);
  EXPECT_FALSE(completions[0].solicited);
}

TEST_F(UdResponderTest, SequenceNumbersDoNotMatter) {
  for (const std::uint32_t psn : {5U, 5U, 0xff'ffffU, 4U}) {
    parts_.post_receive(100);
    auto made = headers();
    made.bth.psn = Psn(psn);
    deliver(made, octets_of(4));
  }
  EXPECT_EQ(parts_.completions().size(), 4U);
}

TEST_F(UdResponderTest, AnotherKeyIsDroppedBeforeAReceiveIsLookedFor) {
  auto made = headers();
  made.deth.qkey = wire::QKey{0x0123'4566};
  deliver(made, octets_of(8));
  EXPECT_EQ(responder_.counters().wrong_qkey, 1U);
  EXPECT_EQ(responder_.counters().no_receive, 0U);
  parts_.post_receive(100);
  deliver(made, octets_of(8));
  EXPECT_EQ(responder_.counters().wrong_qkey, 2U);
  EXPECT_TRUE(parts_.completions().empty());
  EXPECT_EQ(parts_.posted_count(), 1U);
}

TEST_F(UdResponderTest, WithoutAReceiveADatagramIsDropped) {
  deliver(headers(), octets_of(8));
  EXPECT_EQ(responder_.counters().no_receive, 1U);
  EXPECT_FALSE(parts_.state().failed);
  parts_.post_receive(100);
  deliver(headers(), octets_of(8));
  EXPECT_EQ(parts_.completions().size(), 1U);
}

TEST_F(UdResponderTest, ADatagramThatDoesNotFitIsDroppedAndTheReceiveKept) {
  const auto id = parts_.post_receive(50);
  deliver(headers(), octets_of(11));
  EXPECT_TRUE(parts_.completions().empty());
  EXPECT_EQ(responder_.counters().too_long, 1U);
  EXPECT_EQ(parts_.arena().copy(0, 60), Octets(60));
  deliver(headers(), octets_of(10));
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(parts_.arena().copy(0, 40), network_header_);
}

TEST_F(UdResponderTest, ADatagramLongerThanTheMtuIsDropped) {
  parts_.post_receive(4096);
  deliver(headers(), octets_of(257));
  EXPECT_EQ(responder_.counters().too_long, 1U);
  deliver(headers(), octets_of(256));
  EXPECT_EQ(parts_.completions().size(), 1U);
}

TEST_F(UdResponderTest, AReceiveThatCannotBeFilledEndsTheQueuePair) {
  auto bad = parts_.arena().sge(0, 64);
  bad.lkey = wire::MemoryKey{0x666};
  const auto id = parts_.post_receive({parts_.arena().sge(0, 40), bad});
  deliver(headers(), octets_of(8));
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].status, WcStatus::kLocalProtection);
  EXPECT_TRUE(parts_.state().failed);
  EXPECT_EQ(responder_.counters().requests, 0U);
  parts_.post_receive(100);
  deliver(headers(), octets_of(8));
  EXPECT_TRUE(parts_.completions().empty());
}

class UdResponderSharedTest : public UdResponderTest {
 protected:
  UdResponderSharedTest() : UdResponderTest(true) {}
};

TEST_F(UdResponderSharedTest, DatagramsTakeSharedReceives) {
  const auto id = parts_.post_receive(100);
  deliver(headers(), octets_of(8));
  EXPECT_EQ(parts_.completions().at(0).wr_id, id);
  EXPECT_EQ(parts_.posted_count(), 0U);
}

class UdResponderOverrunTest : public UdResponderTest {
 protected:
  UdResponderOverrunTest() : UdResponderTest(false, 1) {}
};

TEST_F(UdResponderOverrunTest, ACompletionWithoutAPlaceEndsTheQueuePair) {
  parts_.post_receive(100);
  parts_.post_receive(100);
  deliver(headers(), octets_of(8));
  deliver(headers(), octets_of(8));
  EXPECT_TRUE(parts_.state().failed && parts_.state().event_due);
  EXPECT_EQ(parts_.state().event, QpEvent::kFatal);
}

}  // namespace
}  // namespace verbatim::transport
