// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "direct/half_record.h"

namespace verbatim::direct {

/// The receiving half of a queue pair of ours, as we let a peer of this host into it: what its
/// owner does with a HalfRecord.
///
/// Before anything that the peer uses is changed or taken away: shut(), then wait_until_left();
/// afterwards open(), or close() for good. Thread: whoever holds the queue pair's lock.
class Half {
 public:
  /// Where the parts are, and whom it is connected to.
  struct Ends {
    transport::QpType type{};
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
    std::uint32_t lane_index = 0;
  };

  Half() noexcept = default;
  Half(HalfRecord* record, const Parts& parts) noexcept;

  [[nodiscard]] bool exists() const noexcept { return record_ != nullptr; }
  /// A new life: nobody has claimed it.
  void begin(const Ends& ends) noexcept;
  void open() noexcept;
  void shut() noexcept;
  void close() noexcept;
  /// Whether the requester has left, waiting for it so long. Not before shut() or close().
  [[nodiscard]] bool wait_until_left(Duration patience) const noexcept;

  /// A request has come in a packet: false when requests are executed directly, and packets are
  /// not ours.
  [[nodiscard]] bool admits_packets() noexcept;
  [[nodiscard]] bool is_claimed_directly() const noexcept;
  [[nodiscard]] bool is_claimed_by_packets() const noexcept;
  [[nodiscard]] bool has_begun() const noexcept;
  /// The process in this slot has ended: if it was inside, it is no longer.
  void handle_death(std::uint32_t slot) noexcept;
  /// Whether the requester waits for a receive; asking makes it wait no longer.
  [[nodiscard]] bool take_waiting() noexcept;

 private:
  HalfRecord* record_ = nullptr;
  std::uint32_t life_ = 0;
};

}  // namespace verbatim::direct
