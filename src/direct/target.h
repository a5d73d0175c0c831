// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/fence.h"
#include "base/time.h"
#include "direct/answer.h"
#include "direct/peer_memory.h"
#include "direct/visit.h"
#include "transport/queues/landing.h"
#include "transport/queues/send_queue.h"
#include "transport/queues/short_request.h"
#include "transport/rules/request.h"
#include "transport/rules/verdict.h"

namespace verbatim::direct {

/// A part of a message, and where its octets are in memory of this process.
struct Chunk {
  std::uint32_t offset = 0;
  std::uint32_t octets = 0;
  bool is_first = false;
  bool is_last = false;
  std::span<const iovec> pieces{};
};

/// The half at the other end of a requester's connection, in another process of this host or in
/// this one. Executes the requester's requests there, with the rules and the results of a responder
/// that gets them as packets (transport/rules/request_rules.h), and completes receives of the half.
///
/// The requester meets the half, and then executes requests between visit().enter() and leave().
/// After a refusal, and after a fault in a copy, only leave() may follow.
///
/// The peer's segment may have any content: no memory is touched but the segment and registered
/// memory. Thread: the one that holds the requester's lock.
class Target {
 public:
  using Self = Visit::Self;
  using Own = Visit::Own;
  using Meeting = Visit::Meeting;

  Target() noexcept = default;
  /// `peer` is null for this very process.
  Target(std::shared_ptr<host::Peer> peer, const Own& own, const Self& self,
         Instant (*clock)()) noexcept;

  [[nodiscard]] Visit& visit() noexcept { return visit_; }
  [[nodiscard]] const Visit& visit() const noexcept { return visit_; }
  [[nodiscard]] Meeting meet() noexcept;
  /// In the owner's process, for errands: true if the half is claimed by the requester that `self`
  /// names.
  [[nodiscard]] bool stand_in() noexcept;

  /// Whether the effect of a request counts although its visit was given up: the memory that it
  /// names is still registered, in the same pages. Otherwise the request may be executed again,
  /// with all checks.
  [[nodiscard]] bool counts_late(const transport::SendEntry& entry) const noexcept;
  /// By value: a request that no pointer leads to stays in registers on the short way.
  [[nodiscard]] bool counts_late(transport::ShortRequest request) noexcept;
  /// For an atomic that does not count. It may have had its effect, so it is not repeated.
  [[nodiscard]] Answer refuse_late() noexcept {
    return refuse(
        {transport::Verdict::kAccessRefused, transport::reason_of(memory::Refusal::kInvalidated)});
  }

  /// A fault has interrupted a request: its answer if memory of the peer is not mapped, or kDone if
  /// the fault was in memory of this process.
  [[nodiscard]] Answer handle_fault(const void* at) noexcept {
    visit_.end_call();
    if (!memory_.was_fault_there(at)) return Answer::kDone;
    return refuse({transport::Verdict::kPlacementFailed, transport::Reason::kMemoryGone});
  }

  [[nodiscard]] Answer send(const transport::SendEntry& entry, const Chunk& chunk) noexcept;
  [[nodiscard]] Answer write(const transport::SendEntry& entry, const Chunk& chunk) noexcept;
  /// Executes a whole request on the short way (short_way.h). False when that way gives up; then
  /// the request is executed on the long way, from its beginning.
  [[nodiscard]] bool send_short(const transport::ShortRequest& request,
                                const std::byte* from) noexcept;
  [[nodiscard]] bool write_short(const transport::ShortRequest& request,
                                 const std::byte* from) noexcept;
  [[nodiscard]] bool read_short(const transport::ShortRequest& request, std::byte* to) noexcept;
  /// Checks a READ before its first chunk, and counts it.
  [[nodiscard]] Answer begin_read(const transport::SendEntry& entry) noexcept;
  [[nodiscard]] Answer read(const transport::SendEntry& entry, const Chunk& chunk) noexcept;
  [[nodiscard]] Answer atomic(const transport::SendEntry& entry, std::uint64_t& original) noexcept;
  [[nodiscard]] Answer flush(const transport::SendEntry& entry) noexcept;
  [[nodiscard]] Answer atomic_write(const transport::SendEntry& entry,
                                    std::uint64_t value) noexcept;
  /// Advances the PSN that the half expects by the packets that a request would have.
  void advance(std::uint32_t packets) noexcept {
    state().expected_psn = state().expected_psn + packets;
  }

  /// The RNR timer of the half: how long a sender waits that has found no receive.
  [[nodiscard]] Duration receiver_delay() const noexcept;
  /// From now on the owner wakes this requester when it posts a receive. True when it has posted
  /// one already.
  [[nodiscard]] bool begin_waiting() noexcept {
    visit_.begin_waiting();
    return has_receive();
  }
  [[nodiscard]] bool has_receive() noexcept;
  [[nodiscard]] bool shares_receives() const noexcept { return shared_.exists(); }

 private:
  [[nodiscard]] transport::ResponderState& state() const noexcept { return visit_.state(); }
  void adopt(const HalfParts& parts) noexcept;
  [[nodiscard]] transport::Judgement judge(const transport::Request& request) const noexcept;
  [[nodiscard]] Answer scatter(const Chunk& chunk, memory::SgeCursor& cursor) noexcept;
  [[nodiscard]] Answer place(const memory::Sge& sge, std::uint32_t offset, std::uint32_t octets,
                             std::span<const iovec> pieces) noexcept;
  /// By value: a request that no pointer leads to stays in registers.
  [[nodiscard]] Answer finish_receive(transport::Request request, std::uint32_t octets) noexcept;
  /// The answer for a part of a message whose visit was given up: the part does not count.
  [[nodiscard]] Answer ignore_late() const noexcept {
    return visit_.is_reliable() ? Answer::kSilence : Answer::kLost;
  }
  /// Completes the receive; false when its lane has no place.
  [[nodiscard, gnu::always_inline]] bool complete_receive(
      transport::Completion completion) noexcept {
    if (board_.keeps_time()) [[unlikely]]
      completion.timestamp = transport::stamp_of(clock_());
    const bool placed = landing_.complete_receive(completion);
    const bool fires = board_.fired().load(std::memory_order_relaxed) != 0 ||
                       (shared_.exists() && shared_.has_limit_event());
    if (fires) [[unlikely]]
      visit_.call_owner();
    return placed;
  }
  [[nodiscard, gnu::always_inline]] Answer publish_receive(
      const transport::Completion& completion) noexcept {
    if (complete_receive(completion)) [[likely]]
      return Answer::kDone;
    return refuse({transport::Verdict::kOverrun, transport::Reason::kCompletionOverrun});
  }
  /// The octets of the peer that a short request names; null if the last known region does not
  /// grant them.
  [[nodiscard]] std::byte* recall(const transport::ShortRequest& request,
                                  memory::Access need) noexcept;
  /// Around the loads of a READ: they come after all stores of earlier requests, and before all
  /// that the program does after it has polled the completion.
  static void begin_reading() noexcept { full_fence(); }
  static void end_reading() noexcept { load_fence(); }
  /// Records the generation of the key that the present request uses, and how it reaches memory.
  void note(const memory::Grant& grant) noexcept {
    granted_ = {.generation = grant.generation,
                .by_pointer = visit_.is_elsewhere() && has_shared_octets(grant)};
  }
  [[nodiscard]] static bool has_shared_octets(const memory::Grant& grant) noexcept {
    return grant.backing == memory::Backing::kShared || grant.shared.octets > 0;
  }
  [[nodiscard]] Answer execute_eight(const transport::Request& request,
                                     std::uint64_t& original) noexcept;
  [[nodiscard, gnu::noinline, gnu::cold]] Answer refuse(
      const transport::Judgement& judgement) noexcept;
  [[nodiscard]] Answer answer_of(Reached reached) noexcept;

  // What every request needs comes first, close together: many queue pairs share a cache.
  Visit visit_;
  struct Granted {
    std::uint16_t generation = 0;  // of the key's entry
    bool by_pointer = false;       // some octets are reached in another process by a pointer
  };
  Granted granted_;                   // at the last check of a key
  memory::KnownRegion known_target_;  // of the last short WRITE or READ
  memory::KeyTable keys_;
  transport::Landing landing_;
  memory::KnownRegion known_receive_;  // of the last short SEND
  transport::CompletionBoard board_;
  transport::SharedReceiveRing shared_;
  transport::ReceiveQueue receive_;
  PeerMemory memory_;
  Instant (*clock_)() = nullptr;
};

}  // namespace verbatim::direct
