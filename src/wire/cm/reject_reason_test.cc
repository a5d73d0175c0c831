// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/reject_reason.h"

#include <gtest/gtest.h>

#include <string>

namespace verbatim::wire {
namespace {

TEST(RejectReason, HasTheNumbersAndNamesOfTheTable) {
  using enum RejectReason;
  struct Entry {
    unsigned number;
    RejectReason reason;
    const char* name;
  };
  const Entry kTable[] = {
      {1, kNoQp, "no QP available"},
      {2, kNoEec, "no EEC available"},
      {3, kNoResources, "no resources available"},
      {4, kTimeout, "timeout"},
      {5, kUnsupportedRequest, "unsupported request"},
      {6, kInvalidCommId, "invalid communication ID"},
      {7, kInvalidCommInstance, "invalid communication instance"},
      {8, kInvalidServiceId, "invalid service ID"},
      {9, kInvalidTransportType, "invalid transport service type"},
      {10, kStaleConnection, "stale connection"},
      {11, kRdcDoesNotExist, "RDC does not exist"},
      {12, kPrimaryGid, "primary remote port GID rejected"},
      {13, kPrimaryLid, "primary remote port LID rejected"},
      {14, kPrimaryServiceLevel, "invalid primary service level"},
      {15, kPrimaryTrafficClass, "invalid primary traffic class"},
      {16, kPrimaryHopLimit, "invalid primary hop limit"},
      {17, kPrimaryPacketRate, "invalid primary packet rate"},
      {18, kAlternateGid, "alternate remote port GID rejected"},
      {19, kAlternateLid, "alternate remote port LID rejected"},
      {20, kAlternateServiceLevel, "invalid alternate service level"},
      {21, kAlternateTrafficClass, "invalid alternate traffic class"},
      {22, kAlternateHopLimit, "invalid alternate hop limit"},
      {23, kAlternatePacketRate, "invalid alternate packet rate"},
      {24, kPortAndCmRedirect, "port and CM redirection"},
      {25, kPortRedirect, "port redirection"},
      {26, kInvalidPathMtu, "invalid path MTU"},
      {27, kInsufficientResponderResources, "insufficient responder resources"},
      {28, kConsumer, "consumer reject"},
      {29, kRnrRetryCount, "RNR retry count reject"},
      {30, kDuplicateLocalCommId, "duplicate local communication ID"},
      {31, kUnsupportedClassVersion, "unsupported class version"},
      {32, kPrimaryFlowLabel, "invalid primary flow label"},
      {33, kAlternateFlowLabel, "invalid alternate flow label"},
      {35, kVendorOption, "vendor option not supported"},
  };
  for (const Entry& entry : kTable) {
    EXPECT_EQ(static_cast<unsigned>(entry.reason), entry.number);
    EXPECT_EQ(name_of(entry.reason), std::string(entry.name));
  }
}

TEST(RejectReason, HasNoOtherNames) {
  for (unsigned number = 0; number <= 0xffff; ++number) {
    if ((number >= 1 && number <= 33) || number == 35) continue;
    ASSERT_EQ(name_of(RejectReason{static_cast<std::uint16_t>(number)}), std::string("?"));
  }
}

}  // namespace
}  // namespace verbatim::wire
