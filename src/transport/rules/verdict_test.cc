// SPDX-License-Identifier: Apache-2.0
#include "transport/rules/verdict.h"

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

/// The consequences of each refusal, from the specification: the syndrome of the answer (IBA Vol 1,
/// table of NAK codes in 9.7.5.2), the status at the requester and of the receive (11.6.2), the
/// affiliated event when no receive was taken (11.6.3), and whether an unreliable connection ends
/// (9.8.2: it drops what it refuses; only a local error ends it).
struct Row {
  Verdict verdict;
  std::optional<std::uint8_t> syndrome;
  std::optional<WcStatus> at_requester;
  WcStatus of_receive;
  QpEvent event;
  bool ends_unreliable;
};
constexpr Row kRows[] = {
    {Verdict::kInvalidRequest, 0x61, WcStatus::kRemoteInvalidRequest,
     WcStatus::kRemoteInvalidRequest, QpEvent::kRequestError, false},
    {Verdict::kTooLong, 0x61, WcStatus::kRemoteInvalidRequest, WcStatus::kLocalLength,
     QpEvent::kRequestError, false},
    {Verdict::kAccessRefused, 0x62, WcStatus::kRemoteAccess, WcStatus::kLocalAccess,
     QpEvent::kAccessError, false},
    {Verdict::kInvalidateRefused, 0x62, WcStatus::kRemoteAccess, WcStatus::kRemoteInvalidRequest,
     QpEvent::kAccessError, false},
    {Verdict::kPlacementFailed, 0x63, WcStatus::kRemoteOperation, WcStatus::kLocalProtection,
     QpEvent::kFatal, true},
    {Verdict::kOverrun, std::nullopt, std::nullopt, WcStatus::kRemoteInvalidRequest,
     QpEvent::kFatal, true},
};

TEST(Verdict, HasItsConsequences) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(static_cast<int>(row.verdict));
    const Consequence got = consequence_of(row.verdict);
    ASSERT_EQ(got.nak.has_value(), row.syndrome.has_value());
    if (got.nak) {
      EXPECT_EQ(wire::Syndrome::nak(*got.nak).raw(), row.syndrome);
      EXPECT_EQ(requester_status(*got.nak), row.at_requester);
    }
    EXPECT_EQ(got.receive_status, row.of_receive);
    EXPECT_EQ(got.event, row.event);
    EXPECT_EQ(got.ends_unreliable, row.ends_unreliable);
  }
}

TEST(Verdict, AGapInTheSequenceEndsNoRequest) {
  EXPECT_EQ(requester_status(wire::Syndrome::Nak::kSequence), std::nullopt);
}

TEST(Verdict, AnInvalidRdRequestIsAnInvalidRequest) {
  EXPECT_EQ(requester_status(wire::Syndrome::Nak::kInvalidRd), WcStatus::kRemoteInvalidRequest);
}

}  // namespace
}  // namespace verbatim::transport
