// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "direct/half_record.h"
#include "direct/visitor.h"

namespace verbatim::direct {

/// The half of a queue pair as its owner handles it: opens it to a local peer, shuts it, and waits
/// for the visitor. The state that the peer sees is in a HalfRecord.
///
/// Before the owner changes or takes away something that the peer uses, it calls shut() and then,
/// if may_be_visited(), await(). Afterwards it calls open(), or close() for good. Thread: the one
/// that holds the queue pair's lock.
class Half {
 public:
  /// The two ends of the connection.
  struct Ends {
    transport::QpType type{};
    wire::QpNumber number{};  // of the queue pair that the half belongs to
    wire::QpNumber dest_qp{};
    std::uint32_t path_mtu = 0;
    std::uint32_t first_psn = 0;
    wire::PKey pkey{};
    wire::Gid local{};
    wire::Gid remote{};
  };
  /// Where the parts of the half are in the owner's segment.
  struct Parts {
    std::uint64_t responder_at = 0;
    std::uint64_t receive_at = 0;
    std::uint64_t shared_at = 0;
    std::uint64_t lane_at = 0;
    std::uint64_t board_at = 0;
    std::uint32_t lane_hint = 0;
    std::uint64_t end = 0;  // an offset behind all of them
  };

  Half() noexcept = default;
  Half(HalfRecord* record, const Parts& parts) noexcept;

  [[nodiscard]] bool exists() const noexcept { return record_ != nullptr; }
  /// Begins a life in which the half is unclaimed. Without a visitor it is claimed by packets.
  void begin(const Ends& ends, Visitor visitor) noexcept;
  /// Begins a life in which the half takes no requests: its requester was stopped during a visit.
  void lock_out() noexcept;
  /// The parts of the half are at other places from now on.
  void move(const Parts& parts) noexcept;
  void open() noexcept;
  void shut() noexcept;
  void close() noexcept;
  /// Call it after shut(). False when no requester has claimed the half; then none can claim it
  /// before open().
  [[nodiscard]] bool may_be_visited() noexcept;

  /// A request has come in a packet. False when the requester executes its requests directly, or
  /// has not chosen packets: then the packet is not from the requester, whatever its headers are.
  [[nodiscard]] bool admits_packets() noexcept;
  [[nodiscard]] bool is_claimed_directly() const noexcept;
  [[nodiscard]] bool is_claimed_by_packets() const noexcept;
  [[nodiscard]] bool has_begun() const noexcept;
  /// Whether the requester waits for a receive. The call ends that waiting.
  [[nodiscard]] bool take_waiting() noexcept {
    std::atomic_ref waits(record_->waits);
    if (waits.load(std::memory_order_relaxed) == 0) [[likely]]
      return false;
    return waits.exchange(0, std::memory_order_acq_rel) != 0;
  }

  [[nodiscard]] const Visitor& visitor() const noexcept { return visitor_; }
  /// In a forked child, which has no visitors.
  void forget_visitor() noexcept { visitor_ = {}; }
  /// The visit that the owner no longer waits for; 0: none.
  [[nodiscard]] Occupancy::Snapshot given_up() const noexcept { return given_up_; }

  /// For a caller that takes something away, after it has published that the thing is gone. Returns
  /// when no visitor is inside these halves that may have seen the thing. A visitor that stays
  /// inside longer than `patience` counts as stopped: its visit is given up, and the visitor finds
  /// that before it reports anything. The halves with such visitors are returned. Each visit is
  /// waited for once only.
  [[nodiscard]] static std::vector<Half*> await(const std::vector<Half*>& halves,
                                                Duration patience);
  /// Waits until the visit that was given up ends, without a limit.
  void wait_for_visitor() const noexcept;

 private:
  void give_up(Occupancy::Snapshot visit) noexcept;

  HalfRecord* record_ = nullptr;
  std::uint32_t life_ = 0;
  wire::QpNumber number_{};
  Visitor visitor_;
  Occupancy::Snapshot given_up_ = 0;
};

}  // namespace verbatim::direct
