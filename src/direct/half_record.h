// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/occupancy.h"
#include "transport/qp_state.h"
#include "wire/headers/ids.h"

namespace verbatim::direct {

/// What the requester of a queue pair shows to the owner of the half that it visits. It lies in the
/// requester's own segment, and only the requester's process ever writes it. So a requester that
/// was locked out, and has not noticed yet, cannot disturb its successor.
struct alignas(64) Visiting {
  Occupancy inside;           // odd during a visit
  std::uint64_t call_at = 0;  // atomic; address of the present system call's octets in the owner
  std::uint64_t call_octets = 0;  // atomic; 0: no such system call is made
  // Atomic. The number of the queue pair to which this one sends its requests in packets, stored
  // before the first of them leaves. 0: it has sent none since it was created.
  std::uint32_t packets_to = 0;

  void choose_packets(wire::QpNumber to) noexcept {
    std::atomic_ref(packets_to).store(static_cast<std::uint32_t>(to), std::memory_order_release);
  }
};

/// The half of a connected queue pair as a peer process finds it in the owner's segment, at the
/// number of the queue pair: where its parts are, which queue pair it is connected to, and which
/// requester executes requests in it. Beside it lies what the requester of the same queue pair
/// shows (`visiting`).
///
/// Plain data. The owner writes all members while `gate` is shut and no visitor is inside. The
/// requester that has the claim writes `waits` and `began`. Their value is the number of a life, so
/// a late store does not count in another life. What every request reads is in the first cache
/// line.
struct alignas(64) HalfRecord {
  enum Gate : std::uint32_t {
    kNone = 0,  // no queue pair, or one that does not take requests
    kOpen = 1,
    kShut = 2,  // for a moment, while the owner changes something
  };
  /// The requester whose requests the half takes. The first request decides it for the whole life,
  /// whose number is the upper 32 bits of the word. A packet decides it only if the requester shows
  /// that it sends packets (Visiting::packets_to): any process of the host can send a packet with
  /// the right numbers.
  enum Claimant : std::uint32_t {
    kUnclaimed = 0,
    kPackets = 1,
    kLockedOut = 2,            // no requests: the requester was stopped during a visit
    kDirectBit = 0x8000'0000,  // with the requester's number
  };
  [[nodiscard]] static constexpr std::uint64_t claim_of(std::uint32_t life,
                                                        std::uint32_t claimant) noexcept {
    return (std::uint64_t{life} << 32) | claimant;
  }

  static constexpr std::uint64_t kPartsGrain = std::uint64_t{2} << 20;

  std::uint64_t claim = 0;      // atomic; life and claimant
  std::uint64_t given_up = 0;   // atomic; the visit that the owner no longer waits for
  std::uint32_t gate = kNone;   // atomic; Gate
  std::uint32_t began = 0;      // atomic; the life in which a first request was executed
  wire::QpNumber dest_qp{};     // the queue pair at the other end
  std::uint32_t path_mtu = 0;   // octets
  std::uint32_t first_psn = 0;  // of the first request that it expects
  transport::QpType type{};     //
  std::uint8_t spare = 0;
  wire::PKey pkey{};               //
  std::uint32_t lane_hint = 0;     // the hint of the lane at `lane_at`
  std::uint32_t parts_end = 0;     // the parts end before this multiple of kPartsGrain
  std::uint64_t responder_at = 0;  // ResponderState
  std::uint64_t receive_at = 0;    // ReceiveQueue; 0: none
  std::uint64_t shared_at = 0;     // SharedReceiveRing; 0: none
  std::uint64_t lane_at = 0;       // CompletionLane of its receives' completions
  std::uint64_t board_at = 0;      // CompletionBoard
  wire::Gid local{};               // the owner's end of the path
  wire::Gid remote{};              // the requester's
  std::uint32_t waits = 0;         // atomic; the life in which the requester waits for a receive

  Visiting visiting;  // of the queue pair's requester, which visits the half of its peer
};
static_assert(std::is_trivially_copyable_v<HalfRecord>);
static_assert(sizeof(HalfRecord) == 192);

}  // namespace verbatim::direct
