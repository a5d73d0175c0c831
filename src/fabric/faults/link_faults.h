// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "fabric/packet_header.h"
#include "link/direction_rules.h"
#include "link/fault_rules.h"

namespace verbatim::fabric {

/// How many packets each fault of a link has hit so far.
struct LinkFaultCounts {
  std::uint64_t dropped = 0;
  std::uint64_t damaged = 0;
  std::uint64_t delayed = 0;
  friend bool operator==(const LinkFaultCounts&, const LinkFaultCounts&) noexcept = default;
};

/// Why rules make no sense on a link; empty: they do. A link keeps the order of its packets, and
/// makes no second one of a packet.
[[nodiscard]] std::string objection_to(const link::FaultRules& rules);

/// The deliberate faults of one direction of a link (docs/FAULTS.md), with what they need to know
/// of the past.
class LinkFaults {
 public:
  /// Rules without a seed of their own get `seed`.
  LinkFaults(const link::FaultRules& rules, link::DirectionRules::Side side, std::uint64_t seed);

  /// What the link does to the next packet. A packet that is delayed delays those behind it.
  struct Fate {
    bool is_lost = false;
    bool is_damaged = false;
    Duration delay{0};
  };
  [[nodiscard]] Fate judge(Instant now, const PacketHeader& packet);
  [[nodiscard]] const LinkFaultCounts& counts() const noexcept { return counts_; }

 private:
  [[nodiscard]] Duration keep_order(Instant now, Duration delay) noexcept;

  link::DirectionRules rules_;
  // When the last packet that was delayed arrives, without the time of all links.
  std::optional<Instant> last_{};
  LinkFaultCounts counts_;
};

}  // namespace verbatim::fabric
