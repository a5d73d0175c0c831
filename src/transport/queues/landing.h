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

/// Where messages land: takes receives, scatters into them, writes through R_Keys and publishes the
/// receive completions. RC, UC and UD responders, and a peer that executes requests directly, all
/// end here, so that memory and completions come out the same whichever way data took.
///
/// A view: the state and the queues are the caller's, possibly shared. It decides nothing about
/// sequence numbers or answers. Thread: whoever runs the responder.
class Landing {
 public:
  Landing() noexcept = default;
  Landing(ResponderState* state, ReceiveQueue queue, SharedReceiveRing shared, CompletionPort port,
          memory::KeyTable keys) noexcept
      : state_(state), queue_(queue), shared_(shared), port_(port), keys_(keys) {}

  /// Claimants of shared receives are queue pair numbers with this bit, so that none is zero.
  static constexpr std::uint32_t kQpClaimBit = SharedReceiveRing::kClaimantBit;

  [[nodiscard]] static constexpr std::uint32_t claimant_of(wire::QpNumber number,
                                                           std::uint8_t life) noexcept {
    return (static_cast<std::uint32_t>(number) & wire::kQpNumberMask) |
           (std::uint32_t{life} & 0x3fU) << 24 | kQpClaimBit;
  }

  /// XRC: the shared receive queue that the next packet names.
  void use_shared(SharedReceiveRing shared) noexcept { shared_ = shared; }
  [[nodiscard]] bool has_shared() const noexcept { return shared_.exists(); }
  [[nodiscard]] const memory::KeyTable& keys() const noexcept { return keys_; }

  /// Whether a message that needs a receive would find one.
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
    compiler_barrier();  // whoever finds it taken after our death finds the rest as well
    state_->receive_taken = true;
    return true;
  }
  /// Room in the receive that was taken.
  [[nodiscard]] std::uint64_t receive_octets() const noexcept;
  /// Where the next octets of the message go, as far as they lie in one piece: of a SEND all that
  /// the receive has there, of a WRITE at most `octets`, and less than all that it has announced.
  /// Empty when that may not be, which scatter() and write() say more about.
  [[nodiscard]] std::span<std::byte> receive_run() const noexcept;
  [[nodiscard]] std::span<std::byte> write_run(std::uint64_t octets) const noexcept;
  /// So many octets of receive_run() have been filled.
  void skip(std::uint32_t octets) noexcept;
  /// The scatter list of the receive that was taken, and whose regions it names.
  [[nodiscard]] std::span<const memory::Sge> list() const noexcept {
    const ReceiveEntry* const taken = entry();
    if (taken == nullptr) return {};
    return shared_.exists() ? shared_.list_of(*taken) : queue_.list_of(*taken);
  }
  [[nodiscard]] memory::DomainId list_domain() const noexcept {
    return shared_.exists() ? shared_.domain() : state_->domain;
  }
  /// Places payload behind what arrived before. Not for payload that does not fit.
  [[nodiscard]] BasicStatus<memory::Refusal> scatter(std::span<const std::byte> payload) noexcept;

  /// Remembers where a WRITE goes. Its key has been checked for the whole range.
  void begin_write(const Request& request) noexcept;
  /// Writes payload behind what arrived before.
  [[nodiscard]] BasicStatus<memory::Refusal> write(std::span<const std::byte> payload) noexcept;

  /// Reports the receive that was taken and gives its entry back. `completion` needs everything but
  /// wr_id and qp. False when the completion queue has no place.
  [[nodiscard, gnu::always_inline]] bool complete_receive(Completion completion) noexcept {
    const ReceiveEntry* const taken = entry();
    if (!state_->receive_taken || taken == nullptr)
      return true;  // somebody else says so: nothing is
    const bool is_shared = shared_.exists();
    completion.wr_id = is_shared ? state_->shared_wr_id : taken->wr_id;
    completion.qp = state_->number;
    // A shared entry goes back first, so that whoever has collected its completion can post
    // another; one of our own goes last. recover() knows every state between two barriers.
    if (is_shared && state_->shared_slot != kSlotReleased) shared_.release(state_->shared_slot);
    compiler_barrier();
    const bool placed = port_.publish(completion);
    compiler_barrier();
    if (!is_shared) {
      queue_.pop();
      queue_.expect_next();
    }
    // Released: whoever finds it no longer taken finds the rest done.
    std::atomic_ref(state_->receive_taken).store(0, std::memory_order_release);
    return placed;
  }
  /// The message is over, without a completion; a receive it had taken stays for the next one.
  void abandon_message() noexcept;
  /// Decides what became of the receive that a requester in another process was working on when it
  /// died: its completion is out, or the receive is still taken, or it was never more than claimed
  /// and goes back. Wherever the requester stopped, the receive ends once. Only when nobody is at
  /// work here; harmless at any such time. flush() and clear() begin with it.
  void recover() noexcept;
  /// Every posted receive as flushed; a shared queue keeps its own.
  void flush() noexcept;
  /// RESET: no message, no receive, no completion.
  void clear() noexcept;
  /// This is a copy of a state in which a requester is left behind: whatever it does there, it has
  /// no part in what happens here. A shared receive stays with `claimant`, who has it there.
  void leave_behind(std::uint32_t claimant) noexcept;

 private:
  /// The receive that was taken. None if the state is wrong, which a peer may share.
  [[nodiscard]] const ReceiveEntry* entry() const noexcept {
    if (shared_.exists()) return &shared_.at(state_->shared_slot);
    return queue_.exists() ? queue_.front() : nullptr;
  }
  [[nodiscard]] bool take_shared() noexcept;
  /// The next octets of the WRITE that is arriving.
  [[nodiscard]] memory::KeyTable::Want next_of_write(std::uint64_t octets) const noexcept;
  [[nodiscard]] std::uint32_t claimant() const noexcept {
    return claimant_of(state_->number, state_->life);
  }
  static constexpr std::uint32_t kSlotReleased = 0xffff'ffff;  // shared_slot: no longer ours

  ResponderState* state_ = nullptr;
  ReceiveQueue queue_;
  SharedReceiveRing shared_;
  CompletionPort port_;
  memory::KeyTable keys_;
};

}  // namespace verbatim::transport
