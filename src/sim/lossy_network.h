// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/prng.h"
#include "base/time.h"
#include "sim/network_frame.h"
#include "sim/observer.h"

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

/// Carries frames between addresses and applies Faults to them, with every choice from one seed. It
/// does not look into the frames. A frame to a multicast address arrives at every process that has
/// joined the group, with one fate for all copies. Any other frame arrives at one of the processes
/// that share its address.
class LossyNetwork {
 public:
  /// A process at an address.
  struct Place {
    wire::Gid address{};
    std::uint32_t slot = 0;
  };

  LossyNetwork(const Faults& faults, std::uint64_t seed) noexcept : faults_(faults), prng_(seed) {}

  /// The observer sees every frame from now on; null: none. It outlives the network.
  void set_observer(Observer* observer) noexcept { observer_ = observer; }

  /// Returns what happens to the frame; a duplicated or corrupted one is delivered as well.
  Fate send(Instant now, NetworkFrame frame);
  /// The next frame that has arrived until `now`, at any address.
  [[nodiscard]] std::optional<NetworkFrame> take_arrived(Instant now);
  [[nodiscard]] Instant next_arrival() const noexcept;
  /// The same for the frames that this process gets.
  [[nodiscard]] std::optional<NetworkFrame> take_arrived_at(const Place& place, Instant now);
  [[nodiscard]] Instant next_arrival_at(const Place& place) const noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return in_flight_.empty(); }

  /// Frames to the group arrive at this process, or no longer.
  void join(const wire::Gid& group, const Place& place);
  void leave(const wire::Gid& group, const Place& place);

  /// Cuts or restores the connection between two addresses, in both directions.
  void cut(const wire::Gid& a, const wire::Gid& b, bool is_cut);

 private:
  using Address = decltype(wire::Gid::octets);
  using Direction = std::pair<Address, Address>;
  /// The time of arrival; equal times in order of sending.
  using Arrival = std::pair<Instant, std::uint64_t>;
  using Frames = std::map<Arrival, NetworkFrame>;
  /// An address and a slot.
  using Receiver = std::pair<Address, std::uint32_t>;
  using InFlight = std::map<Receiver, Frames>;
  static constexpr std::uint32_t kAnySlot = ~0U;  // of frames that are not multicast

  /// What was chosen for a frame. A corrupted frame may come twice; its other copy is intact.
  struct Choice {
    Fate fate{};
    bool comes_twice = false;
    Instant leaves{};  // the sender's buffer
  };
  [[nodiscard]] Choice choose(Instant now, const NetworkFrame& frame);
  void deliver(Instant leaves, NetworkFrame frame);
  void deliver_at(const Receiver& receiver, Instant leaves, NetworkFrame frame);
  /// The frames for this process that arrive first; end() when there are none.
  [[nodiscard]] InFlight::const_iterator first_at(const Place& place) const noexcept;
  [[nodiscard]] std::optional<Instant> departure(Instant now, const NetworkFrame& frame);
  void corrupt(NetworkFrame& frame) noexcept;
  [[nodiscard]] std::optional<NetworkFrame> take_first(InFlight::const_iterator at, Instant now);

  Faults faults_;
  Prng prng_;
  Observer* observer_ = nullptr;
  InFlight in_flight_;  // by receiver; none without frames
  std::uint64_t deliveries_ = 0;
  std::map<Direction, Instant> wire_free_;  // when the sender has sent everything before
  std::set<Direction> cuts_;
  std::map<Address, std::set<Receiver>> groups_;
};

}  // namespace verbatim::sim
