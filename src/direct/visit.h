// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/acquire.h"
#include "base/fence.h"
#include "direct/half_record.h"
#include "host/bells.h"
#include "host/own_descriptor.h"
#include "host/peer.h"
#include "memory/key_table.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/receive_queue.h"
#include "transport/queues/shared_receive_ring.h"
#include "transport/rc/responder_state.h"

namespace verbatim::direct {

/// The parts of a half, found by the offsets in its record. If one of them is not inside the
/// segment, `state` is null.
struct HalfParts {
  transport::ResponderState* state = nullptr;
  transport::ReceiveQueue receive;      // one of these two exists
  transport::SharedReceiveRing shared;  //
  transport::CompletionLane lane;       // of its receives' completions
  transport::CompletionBoard board;
  std::uint32_t lane_hint = 0;
};

/// A requester's way into and out of the half that its queue pair is connected to, in another
/// process of this host or in this one: meeting, entering, leaving, and waking the owner of the
/// half. Target does the work inside.
///
/// Between enter() and leave() the owner of the half takes nothing away that is used there, unless
/// it has given the visit up. So is_given_up() must be called before a completion is published.
///
/// The peer's segment may have any content. Offsets in it are read once and checked. Thread: the
/// one that holds the requester's lock.
class Visit {
 public:
  /// The requester's end of the connection.
  struct Self {
    wire::QpNumber number{};
    wire::QpNumber dest_qp{};
    transport::QpType type{};
    wire::PKey pkey{};
    std::uint32_t path_mtu = 0;
    std::uint32_t send_psn = 0;
    wire::Gid local{};
    wire::Gid remote{};
  };
  /// The requester's process.
  struct Own {
    std::byte* segment = nullptr;
    const host::OwnDescriptor* bell = nullptr;  // an eventfd: wakes the thread that takes the bells
    bool has_peer_calls = true;  // may copy from and to other processes by system calls
  };
  /// Whether the two ends have met.
  enum class Meeting : std::uint8_t {
    kNotYet,    // the other end does not take requests yet
    kMismatch,  // the settings of the two ends do not match: the requests go in packets
    kMet,       // final: the requests are executed in the half
  };

  Visit() noexcept = default;
  /// `peer` is null for this very process.
  Visit(std::shared_ptr<host::Peer> peer, const Own& own, const Self& self) noexcept;

  /// Sets the PSN of `self`, which is known later than the rest.
  void set_send_psn(std::uint32_t psn) noexcept { self_.send_psn = psn; }
  /// Claims the half if the settings of the two ends match. When they have met, `parts` are the
  /// parts of the half.
  [[nodiscard]] Meeting meet(HalfParts& parts) noexcept;
  /// In the owner's process, for errands: true if the half is claimed by the requester that `self`
  /// names.
  [[nodiscard]] bool stand_in(HalfParts& parts) noexcept;

  /// False when the half does not take requests now. Call leave() in either case.
  [[nodiscard]] bool enter() noexcept {
    visiting_->inside.enter(fencing_);  // from here on the owner waits for this visit
    calls_owner_ = false;
    const bool is_open =
        load_acquire(record_->gate) == HalfRecord::kOpen && has_claim() && !has_gone();
    if (!is_open || state_->failed) [[unlikely]]
      return false;
    if (std::atomic_ref(record_->began).load(std::memory_order_relaxed) != life()) [[unlikely]] {
      std::atomic_ref(record_->began).store(life(), std::memory_order_relaxed);
      calls_owner_ = true;  // the first request: the owner notes the requester
    }
    return true;
  }
  void leave() noexcept {
    visiting_->inside.leave(fencing_);
    if (calls_owner_) [[unlikely]]
      wake();
  }
  /// Around an access to memory of this process while no visit goes on. As in a visit, threads that
  /// take memory away wait for its end.
  void begin_own_access() noexcept { visiting_->inside.enter(fencing_); }
  void end_own_access() noexcept { visiting_->inside.leave(fencing_); }
  /// The counter that is odd during visits and such accesses.
  [[nodiscard]] const Occupancy& inside() const noexcept { return visiting_->inside; }
  /// The owner has to be woken when this visit ends.
  void call_owner() noexcept { calls_owner_ = true; }
  /// Wakes the owner: something has changed that its queue pair may wait for.
  void wake() noexcept;

  /// Whether the owner no longer waits for this visit, and may have taken away what it uses.
  [[nodiscard]] bool is_given_up() const noexcept {
    fence_if(fencing_);  // pairs with the barrier in Half::await(), or stands for it
    const bool is_known = std::atomic_ref(record_->given_up).load(std::memory_order_relaxed) ==
                          visiting_->inside.present();
    return (is_known && visiting_ != &standing_in_) || !has_claim();
  }
  /// Whether the half has another life, in which it takes no requests of this requester.
  [[nodiscard]] bool is_locked_out() const noexcept { return !has_claim(); }

  /// Before a system call that reaches memory of the owner: an owner that takes the memory away
  /// waits for the call. After this the caller checks whether it may still make the call.
  void announce_call(std::uint64_t address, std::uint64_t octets) noexcept {
    std::atomic_ref(visiting_->call_at).store(address, std::memory_order_relaxed);
    std::atomic_ref(visiting_->call_octets).store(octets, std::memory_order_release);
    fence_if(fencing_);  // pairs with the barrier in Half::await(), or stands for it
  }
  void end_call() noexcept {
    std::atomic_ref(visiting_->call_octets).store(0, std::memory_order_release);
  }

  /// From now on the owner wakes this requester when it posts a receive.
  void begin_waiting() noexcept;
  void end_waiting() noexcept {
    std::atomic_ref(record_->waits).store(0, std::memory_order_relaxed);
  }

  /// Sends a message to the owner's process; false when it cannot take one now.
  [[nodiscard]] bool send(std::span<const std::byte> head,
                          std::span<const std::byte> octets) noexcept {
    return peer_ != nullptr && peer_->send(head, octets);
  }
  [[nodiscard]] bool has_gone() const noexcept { return peer_ != nullptr && peer_->has_gone(); }
  void mark_gone() noexcept {
    if (peer_ != nullptr) peer_->mark_gone();
  }

  [[nodiscard]] transport::ResponderState& state() const noexcept { return *state_; }
  [[nodiscard]] wire::QpNumber number() const noexcept { return self_.dest_qp; }
  [[nodiscard]] bool is_reliable() const noexcept { return self_.type == transport::QpType::kRc; }
  [[nodiscard]] bool is_elsewhere() const noexcept { return peer_ != nullptr; }
  [[nodiscard]] Fencing fencing() const noexcept { return fencing_; }
  /// The owner's keys.
  [[nodiscard]] memory::KeyTable keys() const noexcept;

 private:
  [[nodiscard]] bool has_claim() const noexcept {
    return std::atomic_ref(record_->claim).load(std::memory_order_relaxed) == claim_;
  }
  [[nodiscard]] std::uint32_t life() const noexcept {
    return static_cast<std::uint32_t>(claim_ >> 32);
  }
  [[nodiscard]] const host::SegmentHeader& header() const noexcept;
  [[nodiscard]] HalfParts find_parts() const noexcept;

  // What every request needs comes first, close together: many queue pairs share a cache.
  transport::ResponderState* state_ = nullptr;
  HalfRecord* record_ = nullptr;      // of the peer's half
  Visiting* visiting_ = nullptr;      // of this requester, in its own segment
  std::uint64_t claim_ = 0;           // of this requester, in the life that it has claimed
  std::shared_ptr<host::Peer> peer_;  // null: the half is in this process
  Fencing fencing_ = Fencing::kFenced;
  bool calls_owner_ = false;  // leave() wakes the owner
  std::byte* segment_ = nullptr;
  std::uint64_t segment_octets_ = 0;
  const host::OwnDescriptor* own_bell_ = nullptr;
  Self self_;
  host::Bells bells_;
  Visiting standing_in_;  // used instead of the requester's by stand_in()
};

}  // namespace verbatim::direct
