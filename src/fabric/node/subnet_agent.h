// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "fabric/node/node.h"
#include "wire/headers/lrh.h"
#include "wire/headers/smp.h"

namespace verbatim::fabric {

/// What a subnet manager wants the link of a port to do.
struct LinkOrder {
  enum class Kind : std::uint8_t {
    kRetrain,  // go down, and up again
    kDisable,
    kSleep,
    kPoll,  // come up, if it was switched off
  };
  std::uint8_t port = 0;
  Kind kind = Kind::kRetrain;
  friend bool operator==(const LinkOrder&, const LinkOrder&) noexcept = default;
};

/// A subnet management packet as it reaches the agent.
struct SmpArrival {
  std::uint8_t ingress = 0;  // the port at which it arrived; 0 in a switch that sent it itself
  wire::Lid source{};        // for the trap about a wrong M_Key
};

/// What became of it.
struct SmpOutcome {
  bool is_answered = false;  // else it is discarded, since its M_Key is wrong
  std::optional<LinkOrder> order{};
  std::optional<std::uint8_t> changed_port{};         // whose attributes are others than before
  std::optional<std::uint8_t> changed_arbitration{};  // of this port
};

/// The subnet management agent of a node (IBA Vol 1, 14.2 and 14.3): carries out a Get or Set of
/// any attribute but SMInfo, which belongs to subnet managers.
///
/// Writes the answer to `mad`, which holds a request that SmpView accepts. The caller sends it.
SmpOutcome answer_smp(Instant now, Node& node, const SmpArrival& arrival,
                      std::span<std::byte, wire::Smp::kSize> mad);

}  // namespace verbatim::fabric
