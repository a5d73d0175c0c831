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

/// Where the requester of a queue pair is at work, for the owner of the half that it works in. It
/// lies in the requester's own segment and has one writer for ever, its process: a requester that
/// was locked out, and does not know it yet, cannot disturb its successor.
struct alignas(64) Visiting {
  Occupancy inside;               // odd while it is in a receiving half
  std::uint64_t call_at = 0;      // atomic; the owner's memory that it reaches by a system call now
  std::uint64_t call_octets = 0;  // atomic; 0: it does not
  // Atomic. The number of the queue pair to which this one sends its requests in packets, stored
  // before the first of them leaves. 0: it has sent none since it was created.
  std::uint32_t packets_to = 0;

  void choose_packets(wire::QpNumber to) noexcept {
    std::atomic_ref(packets_to).store(static_cast<std::uint32_t>(to), std::memory_order_release);
  }
};

/// The receiving half of a connected queue pair as a peer process finds it in the owner's segment,
/// at its number: where its parts are, whom it is connected to, and who executes requests in it.
/// And, beside it, where the sending half of the same queue pair is.
///
/// Plain data. The owner writes everything while `gate` is shut and nobody is inside; the one
/// requester that has the claim writes `waits` and `began`, each the life that it is about: a late
/// store says nothing about another one. What every request reads is in the first line.
struct alignas(64) HalfRecord {
  enum Gate : std::uint32_t {
    kNone = 0,  // no queue pair, or one that does not take requests
    kOpen = 1,
    kShut = 2,  // for a moment: the owner changes something
  };
  /// Whose requests the half takes, decided by the first of them and final for this life, which is
  /// the upper half of the word. A packet decides only if the requester has said that it sends
  /// packets (Visiting::packets_to): any process of the host can send one with the right numbers.
  enum Claimant : std::uint32_t {
    kUnclaimed = 0,
    kPackets = 1,
    kLockedOut = 2,            // nobody's: its requester was stopped in there
    kDirectBit = 0x8000'0000,  // with the requester's number
  };
  [[nodiscard]] static constexpr std::uint64_t claim_of(std::uint32_t life,
                                                        std::uint32_t claimant) noexcept {
    return (std::uint64_t{life} << 32) | claimant;
  }

  std::uint64_t claim = 0;      // atomic; life and claimant
  std::uint64_t given_up = 0;   // atomic; the visit that the owner waits for no longer
  std::uint32_t gate = kNone;   // atomic; Gate
  std::uint32_t began = 0;      // atomic; the life in which a first request was executed
  wire::QpNumber dest_qp{};     // whom it is connected to
  std::uint32_t path_mtu = 0;   // octets
  std::uint32_t first_psn = 0;  // it expects this one first
  transport::QpType type{};     //
  std::uint8_t spare = 0;
  wire::PKey pkey{};               //
  std::uint32_t lane_hint = 0;     // of its receives' completions
  std::uint64_t responder_at = 0;  // ResponderState
  std::uint64_t receive_at = 0;    // ReceiveQueue; 0: none
  std::uint64_t shared_at = 0;     // SharedReceiveQueue; 0: none
  std::uint64_t lane_at = 0;       // CompletionLane
  std::uint64_t board_at = 0;      // CompletionBoard
  wire::Gid local{};               // the owner's end of the path
  wire::Gid remote{};              // the requester's
  std::uint32_t waits = 0;         // atomic; the life in which the requester waits for a receive

  Visiting visiting;  // not of this half: of the queue pair's own requester
};
static_assert(std::is_trivially_copyable_v<HalfRecord>);
static_assert(sizeof(HalfRecord) == 192);

}  // namespace verbatim::direct
