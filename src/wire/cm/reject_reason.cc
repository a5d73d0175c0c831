// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/reject_reason.h"

#include <array>
#include <cstddef>

namespace verbatim::wire {
namespace {

/// By number.
constexpr std::array<const char*, 36> kNames = {
    "?",
    "no QP available",
    "no EEC available",
    "no resources available",
    "timeout",
    "unsupported request",
    "invalid communication ID",
    "invalid communication instance",
    "invalid service ID",
    "invalid transport service type",
    "stale connection",
    "RDC does not exist",
    "primary remote port GID rejected",
    "primary remote port LID rejected",
    "invalid primary service level",
    "invalid primary traffic class",
    "invalid primary hop limit",
    "invalid primary packet rate",
    "alternate remote port GID rejected",
    "alternate remote port LID rejected",
    "invalid alternate service level",
    "invalid alternate traffic class",
    "invalid alternate hop limit",
    "invalid alternate packet rate",
    "port and CM redirection",
    "port redirection",
    "invalid path MTU",
    "insufficient responder resources",
    "consumer reject",
    "RNR retry count reject",
    "duplicate local communication ID",
    "unsupported class version",
    "invalid primary flow label",
    "invalid alternate flow label",
    "?",
    "vendor option not supported",
};

}  // namespace

const char* name_of(RejectReason reason) noexcept {
  const auto number = static_cast<std::size_t>(reason);
  return number < kNames.size() ? kNames[number] : "?";
}

}  // namespace verbatim::wire
