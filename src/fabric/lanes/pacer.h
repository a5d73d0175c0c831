// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/time.h"
#include "fabric/data/journeys.h"
#include "fabric/lanes/link_clock.h"
#include "fabric/lanes/parcel.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"

namespace verbatim::fabric {

/// Holds packets in their adapters whose paths are slower than the link, so that they leave no
/// faster than the path takes them (IBA Vol 1, 9.11: static rate control). The gap behind a packet
/// is that of its queue pair; packets do not say from which one they are, so here it is that of all
/// packets of a port to one queue pair.
///
/// The owner
///   1. asks admit() for each packet with such a path;
///   2. lets go what pop() returns whenever next_due() has come.
class Pacer {
 public:
  struct Flow {
    LinkIndex from = kNoLink;
    wire::Lid to{};
    wire::QpNumber dest_qp{};
    friend auto operator<=>(const Flow&, const Flow&) noexcept = default;
  };
  struct Packet {
    LinkIndex from = kNoLink;
    JourneyId journey{};
  };

  /// `slowdown` not 0.
  Pacer(std::uint32_t slowdown, Duration clock_grain) noexcept
      : slowdown_(slowdown), grain_(clock_grain) {}

  /// Whether a packet may leave at once. Otherwise it is held. `octets` are those on the link,
  /// `megabits` the rate of the path.
  [[nodiscard]] bool admit(Instant now, const Flow& flow, std::uint32_t megabits,
                           std::uint32_t octets, JourneyId journey);

  [[nodiscard]] Instant next_due() const noexcept {
    return turns_.empty() ? Instant::never() : turns_.begin()->due;
  }
  /// What is due at `now`. Nothing: there is none, though next_due() had come.
  [[nodiscard]] std::optional<Packet> pop(Instant now);

  /// Packets that are held, of all ports.
  [[nodiscard]] std::size_t held_count() const noexcept { return held_; }

 private:
  struct Held {
    JourneyId journey{};
    std::uint32_t octets = 0;
  };
  struct State {
    LinkClock clock{};
    std::deque<Held> packets{};
  };
  struct Turn {
    Instant due{};
    Flow flow{};
    friend auto operator<=>(const Turn&, const Turn&) noexcept = default;
  };

  [[nodiscard]] Instant free_at(const State& state) const noexcept {
    return Instant::at(state.clock.busy_until().since_start() - grain_);
  }

  std::uint32_t slowdown_;
  Duration grain_;
  std::map<Flow, State> flows_;  // those that have sent a moment ago
  std::set<Turn> turns_;         // one for each
  std::size_t held_ = 0;
};

}  // namespace verbatim::fabric
