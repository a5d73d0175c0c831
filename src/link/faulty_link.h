// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "link/fault_injector.h"
#include "link/wrapping_link.h"

namespace verbatim::link {

/// A link around another one that injects deliberate faults (docs/FAULTS.md). Each packet is judged
/// separately: packets that leave as a train are judged one by one, and those that pass form trains
/// again. Packets that arrive are delivered one by one.
///
/// It allocates, because speed does not matter while faults are injected.
class FaultyLink final : public WrappingLink {
 public:
  /// `own`: see FaultInjector.
  FaultyLink(Link& inner, const FaultRules& rules,
             std::optional<FaultInjector::OwnNumbers> own = {})
      : WrappingLink(inner), faults_(rules, own) {}

  void send(Instant now, Burst& burst) noexcept override;
  using Link::receive;
  [[nodiscard]] std::span<const Incoming> receive(Instant now, Look look) noexcept override;
  [[nodiscard]] Instant next_due() const noexcept override;
  [[nodiscard]] bool admit_forwarded(Instant now, const Incoming& incoming,
                                     std::span<std::byte> octets) noexcept override;

  [[nodiscard]] const FaultCounters& faults() const noexcept { return faults_.counters(); }

 private:
  void pass_on(Instant now, const Outgoing& to, std::span<const std::byte> octets,
               std::uint16_t identification) noexcept;
  void pass_on_released(Instant now) noexcept;

  FaultInjector faults_;
};

}  // namespace verbatim::link
