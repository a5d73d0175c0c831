// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/acquire.h"
#include "base/fence.h"
#include "direct/answer.h"
#include "direct/errand.h"
#include "direct/half_record.h"
#include "direct/reach.h"
#include "host/bells.h"
#include "host/own_descriptor.h"
#include "host/peer.h"
#include "transport/landing.h"
#include "transport/request.h"
#include "transport/send_queue.h"
#include "transport/short_request.h"
#include "transport/verdict.h"

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
/// or in this one: executes our requests there, with the checks and the results of a responder that
/// got them as packets (IBA Vol 1, 9.7.4), and completes its receives.
///
/// Between enter() and leave() the owner takes nothing away that is used here, unless it has given
/// us up: whoever is longer inside than a moment must look, before it reports anything, whether
/// is_given_up(). Nothing but leave() may follow a refusal. A copy that the system interrupts is
/// over; leave() then as well.
///
/// The peer's segment may say anything. Where things are in there is read once and checked, and
/// nothing outside of it and of registered memory is ever touched.
/// Thread: whoever holds the requester's lock.
class Target {
 public:
  /// Our own end of the connection.
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
  /// How far the two ends have come together.
  enum class Meeting : std::uint8_t {
    kNotYet,     // the other end does not take requests yet
    kStrangers,  // it does, but not ours in this way: packets tell how it ends
    kMet,        // final: requests are executed here
  };

  Target() noexcept = default;
  /// This very process, as it shows itself to others.
  struct Own {
    std::byte* segment = nullptr;
    const host::OwnDescriptor* bell = nullptr;  // an eventfd: wakes the thread that takes the bells
    bool has_peer_calls = true;  // may copy from and to other processes by system calls
  };
  /// `peer` is null for this very process.
  Target(std::shared_ptr<host::Peer> peer, const Own& own, const Self& self,
         Instant (*clock)()) noexcept;

  /// Known later than the rest.
  void set_send_psn(std::uint32_t psn) noexcept { self_.send_psn = psn; }
  [[nodiscard]] Meeting meet() noexcept;
  /// Something has changed that the queue pair at the other end may wait for.
  void wake() noexcept { call_owner(); }
  [[nodiscard]] wire::QpNumber number() const noexcept { return self_.dest_qp; }
  [[nodiscard]] bool has_gone() const noexcept { return peer_ != nullptr && peer_->has_gone(); }
  void mark_gone() noexcept {
    if (peer_ != nullptr) peer_->mark_gone();
  }

  /// In the owner's process, for a requester that cannot do it itself: true if the half is the
  /// requester's that `self` names.
  [[nodiscard]] bool stand_in() noexcept;
  /// Executes an errand; `octets` are those that came along, or the place for those to send back.
  void execute(Errand& errand, std::span<std::byte> octets) noexcept;
  /// Sends one to the owner; false when its process cannot take it now.
  [[nodiscard]] bool send_errand(const Errand& errand, std::span<const std::byte> octets) noexcept {
    return peer_ != nullptr && peer_->send(std::as_bytes(std::span(&errand, 1)), octets);
  }

  /// False when the half does not take requests now; leave() nevertheless.
  [[nodiscard]] bool enter() noexcept {
    visiting_->inside.enter(fencing_);  // from here on the owner waits for us
    calls_owner_ = false;
    const bool is_open =
        load_acquire(record_->gate) == HalfRecord::kOpen && is_ours() && !has_gone();
    if (!is_open || state_->failed) [[unlikely]]
      return false;
    const auto life = static_cast<std::uint32_t>(claim_ >> 32);
    if (std::atomic_ref(record_->began).load(std::memory_order_relaxed) != life) [[unlikely]] {
      std::atomic_ref(record_->began).store(life, std::memory_order_relaxed);
      calls_owner_ = true;  // it has been waiting for this, and takes note of who it was
    }
    return true;
  }
  void leave() noexcept {
    visiting_->inside.leave(fencing_);
    if (calls_owner_) [[unlikely]]
      call_owner();
  }
  /// Whether the owner has ceased to wait for this visit, and may have taken away what we used.
  [[nodiscard]] bool is_given_up() const noexcept {
    fence_if(fencing_);  // pairs with the barrier in Half::await(), or stands for it
    const bool is_known = std::atomic_ref(record_->given_up).load(std::memory_order_relaxed) ==
                          visiting_->inside.present();
    return (is_known && visiting_ != &standing_in_) || !is_ours();
  }
  /// The owner has given the half another life, and takes nothing from us any longer.
  [[nodiscard]] bool is_locked_out() const noexcept { return !is_ours(); }
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
    std::atomic_ref(visiting_->call_octets).store(0, std::memory_order_release);
    if (!reach_.was_fault_there(at)) return Answer::kDone;
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
    state_->expected_psn = state_->expected_psn + packets;
  }

  /// How long its owner wants a sender to wait that found no receive.
  [[nodiscard]] Duration receiver_delay() const noexcept;
  /// From now on the owner tells us when it posts a receive. True when it has done so meanwhile.
  [[nodiscard]] bool begin_waiting() noexcept;
  void end_waiting() noexcept;
  [[nodiscard]] bool has_receive() noexcept;
  [[nodiscard]] bool shares_receives() const noexcept { return shared_.exists(); }

 private:
  [[nodiscard]] bool is_reliable() const noexcept { return self_.type == transport::QpType::kRc; }
  [[nodiscard]] bool is_ours() const noexcept {
    return std::atomic_ref(record_->claim).load(std::memory_order_relaxed) == claim_;
  }
  void bind_parts() noexcept;
  [[nodiscard]] transport::Judgement judge(const transport::Request& request) const noexcept;
  [[nodiscard]] Answer scatter(const Chunk& chunk, memory::SgeCursor& cursor) noexcept;
  [[nodiscard]] Answer place(const memory::Sge& sge, std::uint32_t offset, std::uint32_t octets,
                             std::span<const iovec> pieces) noexcept;
  [[nodiscard]] Answer finish_receive(const transport::SendEntry& entry,
                                      std::uint32_t octets) noexcept;
  /// For a part of a message whose visit was given up: it is as if it had not come.
  [[nodiscard]] Answer ignore_late() const noexcept {
    return is_reliable() ? Answer::kSilence : Answer::kLost;
  }
  /// Reports the receive; false when the owner's completion queue has no place.
  [[nodiscard, gnu::always_inline]] bool put_out(transport::Completion completion) noexcept {
    if (board_.keeps_time()) [[unlikely]]
      completion.timestamp = transport::stamp_of(clock_());
    const bool placed = landing_.complete_receive(completion);
    const bool fires = board_.fired().load(std::memory_order_relaxed) != 0 ||
                       (shared_.exists() && shared_.has_limit_event());
    if (fires) [[unlikely]]
      calls_owner_ = true;
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
                .by_pointer = peer_ != nullptr && has_shared_octets(grant)};
  }
  [[nodiscard]] static bool has_shared_octets(const memory::Grant& grant) noexcept {
    return grant.backing == memory::Backing::kShared || grant.shared.octets > 0;
  }
  [[nodiscard]] Answer execute_eight(const transport::Request& request,
                                     std::uint64_t& original) noexcept;
  [[nodiscard]] Answer refuse(const transport::Judgement& judgement) noexcept;
  [[nodiscard]] Answer answer_of(Reached reached) noexcept;
  /// Octets of the peer's that `key` grants.
  struct Place {
    memory::Grant grant;
    wire::MemoryKey key{};
    std::uint64_t octets = 0;
  };
  [[nodiscard]] Reached store(const Place& place, std::span<const iovec> pieces) noexcept;
  [[nodiscard]] Reached load(const Place& place, std::span<const iovec> pieces) noexcept;
  template <typename Move>
  [[nodiscard]] Reached in_parts(const Place& place, std::span<const iovec> pieces,
                                 Move&& move) noexcept;
  template <typename Call>
  [[nodiscard]] Reached announce(const Place& place, Call&& call) noexcept;
  void call_owner() noexcept;

  // What every request needs comes first, close together: many queue pairs share a cache.
  transport::ResponderState* state_ = nullptr;
  HalfRecord* record_ = nullptr;      // of the peer's half
  Visiting* visiting_ = nullptr;      // where we are, in our own segment
  std::uint64_t claim_ = 0;           // ours, in its present life
  std::shared_ptr<host::Peer> peer_;  // none: this very process
  Fencing fencing_ = Fencing::kFenced;
  bool calls_owner_ = false;  // before leaving
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
  transport::SharedReceiveQueue shared_;
  transport::ReceiveQueue receive_;
  Reach reach_;
  std::byte* segment_ = nullptr;
  std::uint64_t segment_octets_ = 0;
  const host::OwnDescriptor* own_bell_ = nullptr;
  Self self_;
  host::Bells bells_;
  Instant (*clock_)() = nullptr;
  Visiting standing_in_;  // for others
};

}  // namespace verbatim::direct
