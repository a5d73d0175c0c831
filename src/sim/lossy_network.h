// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "sim/frame.h"

namespace verbatim::sim {

/// The faults of a network. All chances are per mille and per frame.
struct Faults {
  unsigned loss_per_mille = 0;
  unsigned duplicate_per_mille = 0;
  unsigned reorder_per_mille = 0;  // arrives late by reorder_delay, so that others overtake it
  unsigned corrupt_per_mille = 0;  // one to four bits flip somewhere in the frame
  Duration delay = std::chrono::microseconds(2);
  Duration jitter{0};  // an additional delay of up to this, so frames overtake each other
  Duration reorder_delay = std::chrono::microseconds(3);
  std::uint64_t octets_per_second = 0;  // 0: unlimited
  std::uint64_t buffer_octets = 0;      // waiting to be sent; more is dropped; 0: unlimited
};

/// What happened to a frame, for an Observer.
enum class Fate : std::uint8_t { kDelivered, kLost, kDuplicated, kCorrupted, kOverflowed, kCut };

/// Carries frames between addresses and applies Faults to them, with every choice from one seed. It
/// does not look into the frames.
class LossyNetwork {
 public:
  LossyNetwork(const Faults& faults, std::uint64_t seed) noexcept : faults_(faults), prng_(seed) {}

  /// Returns what happens to the frame; a duplicated or corrupted one is delivered as well.
  Fate send(Instant now, Frame frame);
  /// The next frame that has arrived until `now`.
  [[nodiscard]] std::optional<Frame> take_arrived(Instant now);
  [[nodiscard]] Instant next_arrival() const noexcept;
  /// The same for the frames to one address.
  [[nodiscard]] std::optional<Frame> take_arrived_at(const wire::Gid& address, Instant now);
  [[nodiscard]] Instant next_arrival_at(const wire::Gid& address) const noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return in_flight_.empty(); }

  void set_faults(const Faults& faults) noexcept { faults_ = faults; }
  /// Cuts or restores the connection between two addresses, in both directions.
  void cut(const wire::Gid& a, const wire::Gid& b, bool is_cut);

 private:
  using Direction = std::pair<decltype(wire::Gid::octets), decltype(wire::Gid::octets)>;

  void deliver(Instant now, Frame frame);
  [[nodiscard]] std::optional<Instant> departure(Instant now, const Frame& frame);
  void corrupt(Frame& frame) noexcept;

  Faults faults_;
  Prng prng_;
  std::multimap<Instant, Frame> in_flight_;  // by arrival; equal instants in order of sending
  std::map<Direction, Instant> wire_free_;   // when the sender has sent everything before
  std::set<Direction> cuts_;
};

}  // namespace verbatim::sim
