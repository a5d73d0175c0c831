// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"

namespace verbatim::fabric {

/// Where a node sends a packet with a directed route next.
struct DirectedHop {
  enum class Kind : std::uint8_t {
    kLeave,    // through `port`
    kArrived,  // it is for the management of this node
    kByLid,    // to `lid`, by the forwarding table of this switch
    kDiscard,
  };
  Kind kind = Kind::kDiscard;
  std::uint8_t port = 0;
  wire::Lid lid{};
  friend bool operator==(const DirectedHop&, const DirectedHop&) noexcept = default;
};

/// The node that a packet with a directed route is at.
struct DirectedRoutePlace {
  bool is_switch = false;
  // Through which the packet arrived; empty: the node itself sends it, or it was routed by LID so
  // far.
  std::optional<std::uint8_t> ingress{};
};

/// One step along a directed route (IBA Vol 1, 14.2.2): moves the hop pointer of the packet, and
/// notes the port at which it arrived in the return path. `smp` is a whole datagram of the class.
[[nodiscard]] DirectedHop next_directed_hop(std::span<std::byte, wire::Mad::kSize> smp,
                                            const DirectedRoutePlace& place) noexcept;

}  // namespace verbatim::fabric
