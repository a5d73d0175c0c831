// SPDX-License-Identifier: Apache-2.0
// Responders whose receives come from a shared receive queue: of their own, or one that each
// message names (XRC).
#include "transport/rc/rc_responder.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>

#include "transport/rc/test_rc_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using wire::Psn;

TEST(RcResponderShared, ASendTakesAReceiveFromTheSharedQueue) {
  RcRig rig(true);
  rig.deliver(Operation::kSendOnly, 500, octets_of(8));
  EXPECT_EQ(rig.drain().at(0).view().aeth().syndrome.raw(), 0x2c);
  const auto id = rig.post_receive(300);
  const Octets data = octets_of(300);
  rig.deliver(Operation::kSendFirst, 500, std::span(data).first(256));
  EXPECT_EQ(rig.posted_count(), 0U);
  rig.deliver(Operation::kSendLast, 501, std::span(data).subspan(256));
  EXPECT_EQ(rig.drain().at(0).view().aeth().syndrome.raw(), kAck);
  const auto completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].octets, 300U);
  EXPECT_EQ(rig.arena().copy(0, 300), data);
}

TEST(RcResponderShared, AFlushReportsTheReceiveInUseAndLeavesTheOthers) {
  RcRig rig(true);
  const auto id = rig.post_receive(300);
  rig.post_receive(300);
  rig.deliver(Operation::kSendFirst, 500, Octets(256));
  rig.machine().landing().flush();
  const auto completions = rig.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].status, WcStatus::kFlushed);
  EXPECT_EQ(rig.posted_count(), 1U);
}

class RcResponderXrcTest : public testing::Test {
 protected:
  RcResponderXrcTest()
      : responder_(&parts_.state(), parts_.replay(), parts_.landing(), wire::Transport::kXrc) {}

  void deliver(Operation operation, std::uint32_t psn, std::uint32_t srq, SharedReceiveRing named,
               std::span<const std::byte> payload = {}) {
    auto headers = request_headers(wire::Transport::kXrc, operation, Psn(psn));
    headers.xrceth.srq = wire::SrqNumber{srq};
    headers.reth = parts_.reth(static_cast<std::uint32_t>(payload.size()));
    responder_.handle_request(TestPacket(headers, payload).view(), named);
  }
  std::optional<std::uint8_t> answer() {
    std::array<std::byte, wire::kMaxTransportOctets> frame;
    const std::size_t octets = responder_.poll_transmit(test_path(), frame, 0);
    if (octets == 0) return std::nullopt;
    const auto packet = TestPacket::written(std::span(frame).first(octets));
    EXPECT_EQ(packet.view().transport(), wire::Transport::kXrc);
    return packet.view().aeth().syndrome.raw();
  }

  Receiver parts_{true};
  RcResponder responder_;
};

TEST_F(RcResponderXrcTest, AMessageLandsInTheQueueThatItNames) {
  const auto id = parts_.post_receive(300);
  const Octets data = octets_of(300);
  deliver(Operation::kSendFirst, 500, 7, parts_.shared(), std::span(data).first(256));
  deliver(Operation::kSendLast, 501, 7, parts_.shared(), std::span(data).subspan(256));
  EXPECT_EQ(answer(), kAck);
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(parts_.arena().copy(0, 300), data);
}

TEST_F(RcResponderXrcTest, AQueueThatDoesNotExistIsAnInvalidRequest) {
  deliver(Operation::kSendOnly, 500, 8, {}, octets_of(8));
  EXPECT_EQ(answer(), kInvalidRequest);
  EXPECT_EQ(parts_.state().reason, Reason::kUnknownSharedQueue);
}

TEST_F(RcResponderXrcTest, AWriteNeedsNoQueue) {
  deliver(Operation::kWriteOnly, 500, 8, {}, octets_of(8));
  EXPECT_EQ(answer(), kAck);
  EXPECT_EQ(parts_.remote(0, 8), octets_of(8));
}

TEST_F(RcResponderXrcTest, AMessageCannotChangeItsQueue) {
  const auto id = parts_.post_receive(300);
  deliver(Operation::kSendFirst, 500, 7, parts_.shared(), Octets(256));
  EXPECT_EQ(answer(), kAck);
  deliver(Operation::kSendLast, 501, 9, parts_.shared(), Octets(8));
  EXPECT_EQ(answer(), kInvalidRequest);
  const auto completions = parts_.completions();
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].wr_id, id);
  EXPECT_EQ(completions[0].status, WcStatus::kRemoteInvalidRequest);
}

TEST_F(RcResponderXrcTest, AQueueThatGoesAwayInTheMiddleEndsTheMessage) {
  parts_.post_receive(300);
  deliver(Operation::kSendFirst, 500, 7, parts_.shared(), Octets(256));
  EXPECT_EQ(answer(), kAck);
  deliver(Operation::kSendLast, 501, 7, {}, Octets(8));
  EXPECT_EQ(answer(), kInvalidRequest);
  EXPECT_EQ(parts_.state().reason, Reason::kUnknownSharedQueue);
  EXPECT_TRUE(parts_.completions().empty());
}

}  // namespace
}  // namespace verbatim::transport
