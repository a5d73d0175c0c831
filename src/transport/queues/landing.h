// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "memory/key_table.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/receive_queue.h"
#include "transport/queues/shared_receive_ring.h"
#include "transport/rc/responder_state.h"
#include "transport/rules/request.h"

namespace verbatim::transport {

/// Takes receives, scatters messages into them, writes through R_Keys and publishes the receive
/// completions. RC, UC and UD responders and the direct path all use it, so that memory and
/// completions are the same on each data path.
///
/// A view: the state and the queues are the caller's, possibly shared. It decides nothing about
/// sequence numbers or answers. Thread: the one that runs the responder.
class Landing {
 public:
  Landing() noexcept = default;
  Landing(ResponderState* state, ReceiveQueue queue, SharedReceiveRing shared, CompletionPort port,
          memory::KeyTable keys) noexcept
      : state_(state), queue_(queue), shared_(shared), port_(port), keys_(keys) {}

  /// Claimants of shared receives are queue pair numbers with this bit, so that none is zero.
  static constexpr std::uint32_t kQpClaimBit = SharedReceiveRing::kClaimantBit;

  [[nodiscard]] static constexpr std::uint32_t claimant_of(wire::QpNumber number,
                                                           std::uint8_t moves) noexcept {
    return (static_cast<std::uint32_t>(number) & wire::kQpNumberMask) |
           (std::uint32_t{moves} & 0x3fU) << 24 | kQpClaimBit;
  }

  /// XRC: the shared receive queue that the next packet names.
  void use_shared(SharedReceiveRing shared) noexcept { shared_ = shared; }
  [[nodiscard]] bool has_shared() const noexcept { return shared_.exists(); }
  [[nodiscard]] const memory::KeyTable& keys() const noexcept { return keys_; }

  /// Whether a receive is taken or posted.
  [[nodiscard]] bool has_receive() const noexcept {
    if (state_->receive_taken) return true;
    return shared_.exists() ? shared_.waiting_count() > 0
                            : queue_.exists() && queue_.posted_count() > 0;
  }
  /// How many receives were ever posted; wraps.
  [[nodiscard]] std::uint32_t receives_posted() const noexcept {
    if (shared_.exists()) return shared_.posted();
    return queue_.exists() ? queue_.posted() : 0;
  }
  /// Makes sure that the message has a receive; false when none is posted.
  [[nodiscard]] bool take_receive() noexcept {
    if (state_->receive_taken) return true;
    if (shared_.exists() ? !take_shared() : !queue_.exists() || queue_.front() == nullptr) {
      return false;
    }
    state_->published_before = port_.published();
    state_->scatter = {};
    // For recover() in another process: when it finds a receive taken, the members above are
    // stored.
    compiler_barrier();
    state_->receive_taken = true;
    return true;
  }
  /// Room in the receive that was taken.
  [[nodiscard]] std::uint64_t receive_octets() const noexcept;
  /// The contiguous place of the next octets of the message. For a SEND: the rest of a piece of the
  /// receive. For a WRITE: at most `octets`, and always without the last octet of the message.
  /// Empty when the access is not allowed; scatter() and write() then return the reason.
  [[nodiscard]] std::span<std::byte> receive_run() const noexcept;
  [[nodiscard]] std::span<std::byte> write_run(std::uint64_t octets) const noexcept;
  /// The caller has filled that many octets of receive_run().
  void skip(std::uint32_t octets) noexcept;
  /// The scatter list of the receive that was taken, and the domain of its regions.
  [[nodiscard]] std::span<const memory::Sge> list() const noexcept {
    const ReceiveEntry* const taken = entry();
    if (taken == nullptr) return {};
    return shared_.exists() ? shared_.list_of(*taken) : queue_.list_of(*taken);
  }
  [[nodiscard]] memory::DomainId list_domain() const noexcept {
    return shared_.exists() ? shared_.domain() : state_->domain;
  }
  /// Places payload behind what arrived before. The caller has checked that it fits.
  [[nodiscard]] BasicStatus<memory::Refusal> scatter(std::span<const std::byte> payload) noexcept;

  /// Records the range of a WRITE. Its key has been checked for the whole range.
  void begin_write(const Request& request) noexcept;
  /// Writes payload behind what arrived before.
  [[nodiscard]] BasicStatus<memory::Refusal> write(std::span<const std::byte> payload) noexcept;

  /// Completes the receive that was taken and releases its entry. `completion` needs all members
  /// but wr_id and qp. False when the completion queue has no place.
  [[nodiscard, gnu::always_inline]] bool complete_receive(Completion completion) noexcept {
    const ReceiveEntry* const taken = entry();
    if (!state_->receive_taken || taken == nullptr)
      return true;  // the state is wrong: no receive is taken
    const bool is_shared = shared_.exists();
    completion.wr_id = is_shared ? state_->shared_wr_id : taken->wr_id;
    completion.qp = state_->number;
    // A shared entry is released first, so that a program that has polled the completion can post
    // another receive. An entry of the queue pair's own queue is released last. recover() handles
    // every state between two barriers.
    if (is_shared && state_->shared_cell != kCellReleased) shared_.release(state_->shared_cell);
    compiler_barrier();
    const bool placed = port_.publish(completion);
    compiler_barrier();
    if (!is_shared) {
      queue_.pop();
      queue_.prefetch_next();
    }
    // With release: a thread that finds it no longer taken finds the rest done.
    std::atomic_ref(state_->receive_taken).store(0, std::memory_order_release);
    return placed;
  }
  /// Ends the message without a completion; a receive that it had taken stays for the next message.
  void abandon_message() noexcept;
  /// Decides the state of the receive that a requester in another process used when it died: its
  /// completion is published, or the receive is still taken, or it was only claimed and is put
  /// back. Wherever the requester stopped, the receive completes once. Call it only when no
  /// requester is at work here; then it is harmless. flush() and clear() begin with it.
  void recover() noexcept;
  /// Completes every posted receive as flushed; a shared queue keeps its receives.
  void flush() noexcept;
  /// RESET: drops the message and the receives, without completions.
  void clear() noexcept;
  /// The state is a copy of one in which a requester is still at work. The requester stays in the
  /// old state and does not affect this one. A shared receive that it has taken stays with
  /// `claimant`.
  void leave_behind(std::uint32_t claimant) noexcept;

 private:
  /// The receive that was taken. Null if the state is wrong: a peer can write it.
  [[nodiscard]] const ReceiveEntry* entry() const noexcept {
    if (shared_.exists()) return &shared_.at(state_->shared_cell);
    return queue_.exists() ? queue_.front() : nullptr;
  }
  [[nodiscard]] bool take_shared() noexcept;
  /// The next octets of the WRITE that is arriving.
  [[nodiscard]] memory::KeyTable::Want next_of_write(std::uint64_t octets) const noexcept;
  [[nodiscard]] std::uint32_t claimant() const noexcept {
    return claimant_of(state_->number, state_->moves);
  }
  static constexpr std::uint32_t kCellReleased = 0xffff'ffff;  // shared_cell: no cell is held

  ResponderState* state_ = nullptr;
  ReceiveQueue queue_;
  SharedReceiveRing shared_;
  CompletionPort port_;
  memory::KeyTable keys_;
};

}  // namespace verbatim::transport
