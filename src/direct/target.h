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

/// A part of a message, and where its octets are in our own memory.
struct Chunk {
  std::uint32_t offset = 0;
  std::uint32_t octets = 0;
  bool is_first = false;
  bool is_last = false;
  std::span<const iovec> pieces{};
};

/// The receiving half of the queue pair that ours is connected to, in another process of this host
/// or in this one: executes our requests there, with the rules and the results of a responder that
/// got them as packets (transport/rules/request_rules.h), and completes its receives.
///
/// Its owner meets the half, and then executes requests between visit().enter() and leave().
/// Nothing but leave() may follow a refusal. A copy that the system interrupts is over; leave()
/// then as well.
///
/// The peer's segment may say anything: nothing outside of it and of registered memory is ever
/// touched. Thread: the one that holds the requester's lock.
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
  /// In the owner's process, for a requester that cannot do it itself: true if the half is the
  /// requester's that `self` names.
  [[nodiscard]] bool stand_in() noexcept;

  /// Whether what a request did counts though its visit was given up: the memory that it names is
  /// still registered and still where it was. Otherwise the request may be executed again, and all
  /// checks with it.
  [[nodiscard]] bool counts_late(const transport::SendEntry& entry) const noexcept;
  /// By value: a request that nobody has a pointer to stays in registers on its short way.
  [[nodiscard]] bool counts_late(transport::ShortRequest request) noexcept;
  /// For an atomic that does not count: its effect is there or not, so it is not repeated.
  [[nodiscard]] Answer refuse_late() noexcept {
    return refuse(
        {transport::Verdict::kAccessRefused, transport::reason_of(memory::Refusal::kInvalidated)});
  }

  /// A fault has interrupted a request inside: what it comes to, if the peer's memory is not there;
  /// kDone when it was ours.
  [[nodiscard]] Answer handle_fault(const void* at) noexcept {
    visit_.end_call();
    if (!memory_.was_fault_there(at)) return Answer::kDone;
    return refuse({transport::Verdict::kPlacementFailed, transport::Reason::kMemoryGone});
  }

  [[nodiscard]] Answer send(const transport::SendEntry& entry, const Chunk& chunk) noexcept;
  [[nodiscard]] Answer write(const transport::SendEntry& entry, const Chunk& chunk) noexcept;
  /// All of a short request (short_way.h), where nothing is special about it and everything allows
  /// it. False otherwise: then it is as if it had not been tried.
  [[nodiscard]] bool send_short(const transport::ShortRequest& request,
                                const std::byte* from) noexcept;
  [[nodiscard]] bool write_short(const transport::ShortRequest& request,
                                 const std::byte* from) noexcept;
  [[nodiscard]] bool read_short(const transport::ShortRequest& request, std::byte* to) noexcept;
  /// Whether a READ may be done; its first chunk counts it.
  [[nodiscard]] Answer begin_read(const transport::SendEntry& entry) noexcept;
  [[nodiscard]] Answer read(const transport::SendEntry& entry, const Chunk& chunk) noexcept;
  [[nodiscard]] Answer atomic(const transport::SendEntry& entry, std::uint64_t& original) noexcept;
  [[nodiscard]] Answer flush(const transport::SendEntry& entry) noexcept;
  [[nodiscard]] Answer atomic_write(const transport::SendEntry& entry,
                                    std::uint64_t value) noexcept;
  /// The peer's sequence numbers that a request has taken.
  void advance(std::uint32_t packets) noexcept {
    state().expected_psn = state().expected_psn + packets;
  }

  /// How long its owner wants a sender to wait that found no receive.
  [[nodiscard]] Duration receiver_delay() const noexcept;
  /// From now on the owner tells us when it posts a receive. True when it has done so meanwhile.
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
  /// For a part of a message whose visit was given up: it is as if it had not come.
  [[nodiscard]] Answer ignore_late() const noexcept {
    return visit_.is_reliable() ? Answer::kSilence : Answer::kLost;
  }
  /// Reports the receive; false when the owner's completion queue has no place.
  [[nodiscard, gnu::always_inline]] bool put_out(transport::Completion completion) noexcept {
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
    if (put_out(completion)) [[likely]]
      return Answer::kDone;
    return refuse({transport::Verdict::kOverrun, transport::Reason::kCompletionOverrun});
  }
  /// The peer's octets that a short request may use so; null: no word about it.
  [[nodiscard]] std::byte* recall(const transport::ShortRequest& request,
                                  memory::Access need) noexcept;
  /// Around the loads of a READ: they come after every store of an earlier request, and before
  /// whatever its program does when it has heard of the end.
  static void begin_reading() noexcept { full_fence(); }
  static void end_reading() noexcept { load_fence(); }
  /// Notes by which life of a key the request at work uses memory, and how it reaches it.
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
    bool by_pointer = false;       // some of the octets, in another process
  };
  Granted granted_;                   // as the key was last looked at
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
