// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "direct/half_record.h"
#include "direct/visitor.h"

namespace verbatim::direct {

/// The receiving half of a queue pair of ours, as we let a peer of this host into it: what its
/// owner does with a HalfRecord.
///
/// Before anything that the peer uses is changed or taken away: shut(), then, if may_be_visited(),
/// await(); afterwards open(), or close() for good. Thread: whoever holds the queue pair's lock.
class Half {
 public:
  /// Where the parts are, and whom it is connected to.
  struct Ends {
    transport::QpType type{};
    wire::QpNumber number{};  // of the queue pair that it is a half of
    wire::QpNumber dest_qp{};
    std::uint32_t path_mtu = 0;
    std::uint32_t first_psn = 0;
    wire::PKey pkey{};
    wire::Gid local{};
    wire::Gid remote{};
  };
  struct Parts {
    std::uint64_t responder_at = 0;
    std::uint64_t receive_at = 0;
    std::uint64_t shared_at = 0;
    std::uint64_t lane_at = 0;
    std::uint64_t board_at = 0;
    std::uint32_t lane_hint = 0;
  };

  Half() noexcept = default;
  Half(HalfRecord* record, const Parts& parts) noexcept;

  [[nodiscard]] bool exists() const noexcept { return record_ != nullptr; }
  /// A new life: nobody has claimed it. Without a visitor only packets may.
  void begin(const Ends& ends, Visitor visitor) noexcept;
  /// Its parts are elsewhere; its requester is left behind with the old ones, and nobody has it.
  void lock_out() noexcept;
  void move(const Parts& parts) noexcept;
  void open() noexcept;
  void shut() noexcept;
  void close() noexcept;
  /// Not before shut(): false when nobody has claimed the half, and then nobody will.
  [[nodiscard]] bool may_be_visited() noexcept;

  /// A request has come in a packet: false when the requester executes its requests directly, or
  /// has not chosen packets. Then the packet is not its own, whatever stands in it.
  [[nodiscard]] bool admits_packets() noexcept;
  [[nodiscard]] bool is_claimed_directly() const noexcept;
  [[nodiscard]] bool is_claimed_by_packets() const noexcept;
  [[nodiscard]] bool has_begun() const noexcept;
  /// Whether the requester waits for a receive; asking makes it wait no longer.
  [[nodiscard]] bool take_waiting() noexcept {
    std::atomic_ref waits(record_->waits);
    if (waits.load(std::memory_order_relaxed) == 0) [[likely]]
      return false;
    return waits.exchange(0, std::memory_order_acq_rel) != 0;
  }

  [[nodiscard]] const Visitor& visitor() const noexcept { return visitor_; }
  /// In a forked child, where nobody comes.
  void forget_visitor() noexcept { visitor_ = {}; }
  /// The visit that nobody waits for any longer; 0: none.
  [[nodiscard]] Occupancy::Snapshot given_up() const noexcept { return given_up_; }

  /// For a caller that takes something away, after it has published that the thing is gone. Returns
  /// when no visitor is inside of these halves that may have seen the thing. A visitor that stays
  /// inside longer than the patience lasts counts as stopped: its visit is given up, and the
  /// visitor learns that before it reports anything. Those halves are returned; the same visit is
  /// waited for once only.
  [[nodiscard]] static std::vector<Half*> await(const std::vector<Half*>& halves,
                                                Duration patience);
  /// Waits for the visit that was given up, after all, however long it takes.
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
