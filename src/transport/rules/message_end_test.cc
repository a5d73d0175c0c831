// SPDX-License-Identifier: Apache-2.0
#include "transport/rules/message_end.h"

#include <gtest/gtest.h>

#include "memory/window.h"
#include "transport/rc/test_responder.h"

namespace verbatim::transport {
namespace {

using namespace test;
using Extra = Request::Extra;

/// The completion of a receive (IBA Vol 1, 11.4.2.1), by kind of message.
struct Row {
  Request request;
  WcOpcode opcode;
  WcFlags flags;
};
const Row kRows[] = {
    {{.kind = RequestKind::kSend}, WcOpcode::kReceive, WcFlags::kNone},
    {{.kind = RequestKind::kSend, .extra = Extra::kImmediate, .imm_or_key = 77},
     WcOpcode::kReceive,
     WcFlags::kWithImm},
    {{.kind = RequestKind::kSend, .extra = Extra::kInvalidate, .imm_or_key = 88},
     WcOpcode::kReceive,
     WcFlags::kWithInvalidate},
    {{.kind = RequestKind::kWrite, .extra = Extra::kImmediate, .imm_or_key = 77},
     WcOpcode::kReceiveWithImm,
     WcFlags::kWithImm},
};

TEST(MessageEnd, ACompletionDescribesTheMessage) {
  for (const Row& row : kRows) {
    for (const bool solicited : {false, true}) {
      Request request = row.request;
      request.solicited = solicited;
      const Completion got = receive_completion(request, 300);
      EXPECT_EQ(got.status, WcStatus::kSuccess);
      EXPECT_EQ(got.opcode, row.opcode);
      EXPECT_EQ(got.flags, row.flags);
      EXPECT_EQ(got.octets, 300U);
      EXPECT_EQ(got.solicited, solicited);
      EXPECT_EQ(got.imm_or_key, row.request.imm_or_key);
    }
  }
}

class MessageEndTest : public testing::Test {
 protected:
  Judgement finish(const Request& request) {
    Landing landing = receiver_.landing();
    EXPECT_TRUE(landing.take_receive());
    receiver_.state().inbound = Inbound::kSend;
    receiver_.state().arrived = 300;
    return finish_receive(request, 300, receiver_.state(), landing,
                          [&](const Completion& made) { return landing.complete_receive(made); });
  }
  void end(const Judgement& judgement) {
    Landing landing = receiver_.landing();
    end_half(receiver_.state(), landing, judgement);
  }
  wire::MemoryKey window() {
    const auto key =
        *receiver_.arena().registry().allocate_window(kHome, memory::KeyKind::kWindowType2B);
    EXPECT_EQ(memory::bind_type2(receiver_.arena().keys(), {.domain = kHome, .qp = kOurQp},
                                 {.window_key = key,
                                  .new_key = key,
                                  .region_key = receiver_.arena().key(),
                                  .address = receiver_.arena().address(),
                                  .octets = 64,
                                  .access = memory::Access::kRemoteRead}),
              memory::BindRefusal::kNone);
    return key;
  }

  Receiver receiver_{false, 2};
};

TEST_F(MessageEndTest, AMessageThatEndsIsCountedAndOver) {
  const auto id = receiver_.post_receive(1000);
  receiver_.state().msn = 4;
  EXPECT_TRUE(finish({.kind = RequestKind::kSend}).accepted());
  const auto got = receiver_.completions();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, id);
  EXPECT_EQ(got[0].qp, kOurQp);
  EXPECT_EQ(receiver_.state().msn, 5U);
  EXPECT_EQ(receiver_.state().inbound, Inbound::kNone);
  EXPECT_EQ(receiver_.state().arrived, 0U);
  EXPECT_FALSE(receiver_.state().failed);
}

TEST_F(MessageEndTest, AKeyIsInvalidatedBeforeTheReceiveCompletes) {
  receiver_.post_receive(1000);
  const auto key = window();
  const Request request{.kind = RequestKind::kSend,
                        .extra = Extra::kInvalidate,
                        .imm_or_key = static_cast<std::uint32_t>(key)};
  Landing landing = receiver_.landing();
  ASSERT_TRUE(landing.take_receive());
  const auto works = [&] {
    return receiver_.arena()
        .keys()
        .check_remote({.key = key,
                       .domain = kHome,
                       .qp = kOurQp,
                       .address = receiver_.arena().address(),
                       .octets = 8,
                       .need = memory::Access::kRemoteRead})
        .ok();
  };
  ASSERT_TRUE(works());
  const auto got = finish_receive(request, 0, receiver_.state(), landing, [&](const Completion&) {
    EXPECT_FALSE(works());
    return true;
  });
  EXPECT_TRUE(got.accepted());
}

TEST_F(MessageEndTest, AKeyThatMayNotBeInvalidatedRefusesTheMessage) {
  receiver_.post_receive(1000);
  receiver_.state().msn = 4;
  const auto got = finish({.kind = RequestKind::kSend,
                           .extra = Extra::kInvalidate,
                           .imm_or_key = static_cast<std::uint32_t>(receiver_.arena().key())});
  EXPECT_EQ(got.verdict, Verdict::kInvalidateRefused);
  EXPECT_EQ(got.reason, reason_of(memory::BindRefusal::kNotInvalidatable));
  EXPECT_TRUE(receiver_.completions().empty());
  EXPECT_EQ(receiver_.state().msn, 4U) << "it has not been completed";
}

TEST_F(MessageEndTest, ACompletionThatFindsNoPlaceIsAnOverrun) {
  for (int i = 0; i < 3; ++i) receiver_.post_receive(1000);
  EXPECT_TRUE(finish({.kind = RequestKind::kSend}).accepted());
  EXPECT_TRUE(finish({.kind = RequestKind::kSend}).accepted());
  const auto got = finish({.kind = RequestKind::kSend});
  EXPECT_EQ(got.verdict, Verdict::kOverrun);
  EXPECT_EQ(got.reason, Reason::kCompletionOverrun);
}

TEST_F(MessageEndTest, AMessageFitsItsReceiveOrIsTooLong) {
  receiver_.post_receive(1000);
  Landing landing = receiver_.landing();
  ASSERT_TRUE(landing.take_receive());
  EXPECT_TRUE(check_room(landing, 0).accepted());
  EXPECT_TRUE(check_room(landing, 1000).accepted());
  EXPECT_EQ(check_room(landing, 1001).verdict, Verdict::kTooLong);
  EXPECT_EQ(check_room(landing, 1001).reason, Reason::kMessageTooLong);
}

TEST_F(MessageEndTest, AReceiveThatWasTakenCompletesWithTheError) {
  const auto id = receiver_.post_receive(1000);
  Landing landing = receiver_.landing();
  ASSERT_TRUE(landing.take_receive());
  end({Verdict::kTooLong, Reason::kMessageTooLong});
  const auto got = receiver_.completions();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, id);
  EXPECT_EQ(got[0].status, WcStatus::kLocalLength);
  EXPECT_EQ(got[0].detail, static_cast<std::uint32_t>(Reason::kMessageTooLong));
  EXPECT_TRUE(has_failed(receiver_.state()));
  EXPECT_FALSE(receiver_.state().event_due);
  EXPECT_EQ(receiver_.state().reason, Reason::kMessageTooLong);
}

TEST_F(MessageEndTest, WithoutAReceiveAnEventIsDue) {
  receiver_.post_receive(1000);
  end({Verdict::kAccessRefused, reason_of(memory::Refusal::kInvalidated)});
  EXPECT_TRUE(receiver_.completions().empty());
  EXPECT_EQ(receiver_.posted_count(), 1U);
  EXPECT_TRUE(has_failed(receiver_.state()));
  EXPECT_TRUE(receiver_.state().event_due);
  EXPECT_EQ(receiver_.state().event, QpEvent::kAccessError);
}

}  // namespace
}  // namespace verbatim::transport
