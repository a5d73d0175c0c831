// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "fabric/lanes/lane_arbiter.h"
#include "fabric/lanes/lane_credits.h"
#include "fabric/lanes/lane_wait.h"
#include "fabric/lanes/link_clock.h"
#include "fabric/lanes/parcel.h"
#include "fabric/lanes/turn_wheel.h"
#include "fabric/ring_queue.h"
#include "wire/headers/lrh.h"
#include "wire/headers/native_packet.h"

namespace verbatim::fabric {

/// What is between the ports of a fabric (IBA Vol 1, 7.6 and 7.9): the rate of each link, the
/// credits of its lanes, the queues of packets that wait to leave through a port, and whose turn it
/// is. It knows neither nodes nor routes. A link here is one direction: what leaves through a port.
///
/// A packet that can_send() leaves by send() at once, and no queue is touched. Others wait() for
/// their turn. The owner
///   1. after each call that takes the time, and whenever next_due() has come, takes the ports that
///      poll_turn() names, and of each all packets that take_parcel() lets go;
///   2. calls release() when a packet has left the receive buffer that it was in.
/// Lanes are numbers: 0 to 7 for data, and kManagement for lane 15, which has a buffer but no
/// credits, and goes first.
class LinkLayer {
 public:
  static constexpr std::uint8_t kDataLanes = 8;
  static constexpr std::uint8_t kManagement = kDataLanes;
  static constexpr std::uint8_t kLanes = kDataLanes + 1;
  using Lanes = LaneArbiter::Lanes;  // bits
  static constexpr Lanes kAllDataLanes = (1U << kDataLanes) - 1;
  static constexpr Lanes kManagementBit = 1U << kManagement;

  struct Rules {
    std::uint32_t slowdown = 0;  // 0: links have no rate
    Duration clock_grain{0};
    std::uint16_t lane_blocks = 0;
  };

  LinkLayer(std::size_t ports, const Rules& rules);
  /// Both ports have this link, in either direction.
  void connect(LinkIndex a, LinkIndex b) noexcept;
  [[nodiscard]] LinkIndex peer_of(LinkIndex at) const noexcept { return links_[at].peer; }

  // What a subnet manager sets.
  void set_rate(LinkIndex at, const LinkRate& rate) noexcept;
  /// `lanes` are those that the port uses.
  void set_lanes(LinkIndex at, Lanes lanes, const Port& port);
  /// A lane that is stalled sends nothing.
  void set_stalled(LinkIndex at, std::uint8_t lane, bool is_stalled);
  /// The link comes up: its credits begin anew. Its lanes are empty.
  void begin(LinkIndex at) noexcept;

  // Packets that leave.
  [[nodiscard]] bool has_lane(LinkIndex at, std::uint8_t lane) const noexcept {
    return (links_[at].lanes >> lane & 1U) != 0;
  }
  /// Whether a packet can leave without waiting.
  [[nodiscard]] bool can_send(Instant now, LinkIndex at, std::uint8_t lane,
                              std::uint16_t words) const noexcept {
    const Link& link = links_[at];
    return link.waiting == 0 && (link.served >> lane & 1U) != 0 &&
           link.clock.is_free(now, rules_.clock_grain) &&
           (lane == kManagement || this->lane(at, lane).credits.may_send(blocks_of(words)));
  }
  /// It leaves. Then either lose(), or receive(): at once for data, and on lane 15, if has_room(),
  /// when it arrives.
  void send(Instant now, LinkIndex at, std::uint8_t lane, std::uint16_t words) noexcept {
    links_[at].clock.send(now, std::uint32_t{words} * 4 + wire::kVcrcSize);
    if (lane != kManagement) this->lane(at, lane).credits.send(blocks_of(words));
  }
  void receive(LinkIndex from, std::uint8_t lane, std::uint16_t words) noexcept {
    this->lane(from, lane).credits.receive(blocks_of(words));
  }
  /// It has got lost: flow control repairs the credits.
  void lose(LinkIndex from, std::uint8_t lane) noexcept {
    if (lane != kManagement) this->lane(from, lane).credits.control_flow();
  }
  /// Whether the buffer of lane 15 at a port has room.
  [[nodiscard]] bool has_room(LinkIndex at, std::uint16_t words) const noexcept {
    return blocks_of(words) <= lane(links_[at].peer, kManagement).credits.free_blocks();
  }

  // Packets that wait.
  void wait(Instant now, LinkIndex at, std::uint8_t lane, const Parcel& parcel);
  /// A port that may be able to send; empty: none.
  [[nodiscard]] std::optional<LinkIndex> poll_turn() noexcept {
    if (turns_.empty()) return std::nullopt;
    const LinkIndex at = turns_.pop();
    links_[at].has_turn = false;
    return at;
  }
  [[nodiscard]] bool has_turns() const noexcept { return !turns_.empty(); }
  struct Departure {
    Parcel parcel{};
    std::uint8_t lane = 0;
  };
  /// The next packet that leaves a port at `now`. Its send() has been called. Empty: none can.
  [[nodiscard]] std::optional<Departure> take_parcel(Instant now, LinkIndex at);
  /// Takes the first packet of a lane out of it, which does not leave then.
  [[nodiscard]] std::optional<Parcel> remove_first(Instant now, LinkIndex at, std::uint8_t lane);
  [[nodiscard]] const Parcel* first_of(LinkIndex at, std::uint8_t lane) const noexcept;
  /// Since when it is the first one.
  [[nodiscard]] Instant first_since(LinkIndex at, std::uint8_t lane) const noexcept {
    return this->lane(at, lane).first_since;
  }
  /// The lanes of a port in which packets wait.
  [[nodiscard]] Lanes waiting(LinkIndex at) const noexcept { return links_[at].waiting; }
  [[nodiscard]] std::uint32_t packets_waiting(LinkIndex at) const noexcept {
    return links_[at].packets;
  }

  // Receive buffers.
  /// A packet has left the buffer. Its lane may go on.
  void release(const Hold& hold) {
    if (hold.blocks == 0) return;
    const LinkIndex sender = links_[hold.at].peer;
    lane(sender, hold.lane).credits.release(hold.blocks);
    if ((links_[sender].waiting >> hold.lane & 1U) != 0) give_turn(sender);
  }
  /// Several copies of one packet wait: the buffer is free when all have left. Returns what each
  /// parcel has as its hold; `copies` are all, and the caller itself may be one of them.
  [[nodiscard]] Hold share(const Hold& hold);
  void add_sharer(const Hold& shared) noexcept { ++shares_[shared.at].users; }
  void release_shared(const Hold& shared);
  void release(const Parcel& parcel) {
    parcel.shares_hold ? release_shared(parcel.hold) : release(parcel.hold);
  }

  // Time.
  [[nodiscard]] Instant next_due() const noexcept { return wheel_.next_due(); }
  /// Has poll_turn() name the port whose link has become free.
  void handle_due();

  // What is there.
  [[nodiscard]] LaneState state_of(LinkIndex at, std::uint8_t lane) const noexcept;
  /// For whose credits the first packet of a lane waits: the port at the other end. Empty: it has
  /// credits, or none waits.
  [[nodiscard]] std::optional<LinkIndex> lacks_credits_of(LinkIndex at,
                                                          std::uint8_t lane) const noexcept;
  /// Calls `visit` with the receive buffer of each packet that waits in a lane.
  template <typename Visit>
  void for_each_hold(LinkIndex at, std::uint8_t lane, Visit&& visit) const {
    for (std::uint32_t entry = this->lane(at, lane).first; entry != kNone;
         entry = parcels_[entry].next) {
      const Parcel& parcel = parcels_[entry].parcel;
      visit(parcel.shares_hold ? shares_[parcel.hold.at].hold : parcel.hold);
    }
  }
  /// Words that the port could have sent while packets waited for credits, since it was asked last.
  [[nodiscard]] std::uint64_t take_waited_words(Instant now, LinkIndex at) noexcept;
  /// The lane has sent all that it ever sends: both ends have counted the same, nothing waits, and
  /// all credits are back.
  [[nodiscard]] bool is_quiet(LinkIndex at, std::uint8_t lane) const noexcept;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Entry {
    Parcel parcel{};
    std::uint32_t next = kNone;
  };
  struct Share {
    Hold hold{};
    std::uint32_t users = 0;
  };
  struct Lane {
    LaneCredits credits{};  // to send through this port; the buffer is at the other end
    std::uint16_t first_words = 0;
    std::uint32_t first = kNone;  // in parcels_
    std::uint32_t last = kNone;
    std::uint32_t packets = 0;
    std::uint32_t blocks = 0;
    Instant first_since{};
  };
  struct Link {
    LinkClock clock{};
    LinkIndex peer = kNoLink;
    Lanes lanes = kManagementBit;   // that the port uses
    Lanes served = kManagementBit;  // of these, that arbitration serves and that are not stalled
    Lanes stalled = 0;
    Lanes waiting = 0;          // in which packets wait
    bool has_turn = false;      // is in turns_
    bool is_scheduled = false;  // is in wheel_
    std::uint32_t packets = 0;  // that wait
    std::uint64_t waited_words = 0;
    Instant blocked_since = Instant::never();  // it could send, if there were credits
    LaneArbiter arbiter{};
  };

  [[nodiscard]] Lane& lane(LinkIndex at, std::uint8_t number) noexcept {
    return lanes_[std::size_t{at} * kLanes + number];
  }
  [[nodiscard]] const Lane& lane(LinkIndex at, std::uint8_t number) const noexcept {
    return lanes_[std::size_t{at} * kLanes + number];
  }
  [[nodiscard]] Lanes ready_lanes(LinkIndex at) const noexcept;
  void find_served(LinkIndex at);
  void give_turn(LinkIndex at);
  void schedule(Instant now, LinkIndex at);
  void end_block(Instant now, Link& link) noexcept;
  [[nodiscard]] Parcel pop(Instant now, LinkIndex at, std::uint8_t number) noexcept;

  Rules rules_;
  std::vector<Link> links_;  // by port
  std::vector<Lane> lanes_;  // by port and lane
  std::vector<Entry> parcels_;
  std::uint32_t free_parcel_ = kNone;
  std::vector<Share> shares_;
  std::vector<std::uint32_t> free_shares_;
  RingQueue<LinkIndex> turns_;
  TurnWheel wheel_;
};

}  // namespace verbatim::fabric
