// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/lrh.h"

namespace verbatim::wire {

/// Where a native packet goes within its subnet, and with which service level: what its local route
/// header says of the way; and how fast that takes packets. A RoCE packet has none, which is the
/// default.
struct LocalRoute {
  Lid source = Lid::kReserved;
  Lid destination = Lid::kReserved;
  ServiceLevel level{};
  std::uint8_t rate = 0;  // of the path, as verbs count rates; 0: that of the link. In no header.

  /// Whether the packet is a native one.
  [[nodiscard]] bool exists() const noexcept { return destination != Lid::kReserved; }
  friend bool operator==(const LocalRoute&, const LocalRoute&) noexcept = default;
};

}  // namespace verbatim::wire
