// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "transport/rc/test_responder.h"

namespace verbatim::transport::test {

inline constexpr std::uint8_t kAck = 0x1f;  // no credit information
inline constexpr std::uint8_t kInvalidRequest = 0x61;
inline constexpr std::uint8_t kRemoteAccess = 0x62;
inline constexpr std::uint8_t kRemoteOperation = 0x63;

/// A reliable responder, and checks of its answers.
class RcResponderTest : public testing::Test {
 protected:
  /// One Acknowledge packet and nothing else.
  void expect_answer(std::uint8_t syndrome, std::uint32_t psn, std::uint32_t msn) {
    const auto packets = rig_.drain();
    ASSERT_EQ(packets.size(), 1U);
    const auto view = packets[0].view();
    EXPECT_EQ(view.operation(), wire::Operation::kAcknowledge);
    EXPECT_EQ(view.aeth().syndrome.raw(), syndrome);
    EXPECT_EQ(view.psn(), wire::Psn(psn));
    EXPECT_EQ(view.aeth().msn, msn);
    EXPECT_EQ(view.bth().dest_qp(), kPeerQp);
  }
  void expect_silence() { EXPECT_TRUE(rig_.drain().empty()); }
  /// The request with PSN 500, the first, was refused without a receive.
  void expect_refusal(std::uint8_t syndrome, QpEvent event) {
    expect_answer(syndrome, 500, 0);
    EXPECT_TRUE(rig_.state().failed);
    EXPECT_TRUE(rig_.state().event_due);
    EXPECT_EQ(rig_.state().event, event);
    EXPECT_TRUE(rig_.completions().empty());
  }
  void expect_refusal(std::uint8_t syndrome, QpEvent event, Reason reason) {
    expect_refusal(syndrome, event);
    EXPECT_EQ(rig_.state().reason, reason);
  }
  /// The request was refused, and the receive that it had taken has completed with an error.
  void expect_failed_receive(std::uint64_t wr_id, WcStatus status) {
    EXPECT_TRUE(rig_.state().failed);
    EXPECT_FALSE(rig_.state().event_due);
    const auto completions = rig_.completions();
    ASSERT_EQ(completions.size(), 1U);
    EXPECT_EQ(completions[0].wr_id, wr_id);
    EXPECT_EQ(completions[0].status, status);
    EXPECT_EQ(completions[0].qp, kOurQp);
    EXPECT_EQ(completions[0].vendor_error(), static_cast<std::uint32_t>(rig_.state().reason));
  }

  RcRig rig_;
};

/// A valid packet of that operation.
inline void deliver_any(RcRig& rig, wire::Operation operation, std::uint32_t psn) {
  const auto rule = wire::describe(wire::opcode_of(wire::Transport::kRc, operation)).payload;
  std::size_t octets = 0;
  if (rule == wire::PayloadRule::kExactlyMtu) octets = 256;
  if (rule == wire::PayloadRule::kOneToMtu || rule == wire::PayloadRule::kEight) octets = 8;
  const bool is_first = operation == wire::Operation::kWriteFirst;
  rig.deliver(rig.headers(operation, psn, is_first ? 264 : static_cast<std::uint32_t>(octets)),
              Octets(octets));
}

}  // namespace verbatim::transport::test
