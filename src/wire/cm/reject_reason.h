// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace verbatim::wire {

/// Why a CmRej refuses (IBA Vol 1, 12.6.7.2). A user of rdma_cm sees the number as the status of
/// its event. Zero and 34 have no meaning.
enum class RejectReason : std::uint16_t {
  kNoQp = 1,
  kNoEec = 2,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupportedRequest = 5,
  kInvalidCommId = 6,
  kInvalidCommInstance = 7,
  kInvalidServiceId = 8,
  kInvalidTransportType = 9,
  kStaleConnection = 10,
  kRdcDoesNotExist = 11,
  kPrimaryGid = 12,
  kPrimaryLid = 13,
  kPrimaryServiceLevel = 14,
  kPrimaryTrafficClass = 15,
  kPrimaryHopLimit = 16,
  kPrimaryPacketRate = 17,
  kAlternateGid = 18,
  kAlternateLid = 19,
  kAlternateServiceLevel = 20,
  kAlternateTrafficClass = 21,
  kAlternateHopLimit = 22,
  kAlternatePacketRate = 23,
  kPortAndCmRedirect = 24,
  kPortRedirect = 25,
  kInvalidPathMtu = 26,
  kInsufficientResponderResources = 27,
  kConsumer = 28,
  kRnrRetryCount = 29,
  kDuplicateLocalCommId = 30,
  kUnsupportedClassVersion = 31,
  kPrimaryFlowLabel = 32,
  kAlternateFlowLabel = 33,
  kVendorOption = 35,
};

/// "?" for a number without meaning.
[[nodiscard]] const char* name_of(RejectReason reason) noexcept;

}  // namespace verbatim::wire
