// SPDX-License-Identifier: Apache-2.0
#include "direct/target.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "host/membarrier.h"
#include "host/ring.h"
#include "transport/message_end.h"
#include "transport/request_rules.h"
#include "wire/aeth.h"

namespace verbatim::direct {

using transport::Completion;
using transport::Judgement;
using transport::Reason;
using transport::reason_of;
using transport::Request;
using transport::RequestKind;
using transport::SendEntry;
using transport::SendOpcode;
using transport::Verdict;

namespace {

constexpr std::size_t kPieceLimit = 64;

/// Hands out what the pieces of a chunk hold, a run of octets at a time.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const iovec> pieces) noexcept : pieces_(pieces) {}

  /// The pieces of the next `octets`, which are there.
  [[nodiscard]] std::span<const iovec> take(std::uint64_t octets) noexcept {
    std::size_t count = 0;
    while (octets > 0 && count < taken_.size() && !pieces_.empty()) {
      const iovec& piece = pieces_.front();
      const auto length = std::min<std::uint64_t>(octets, piece.iov_len - offset_);
      taken_[count++] = {.iov_base = static_cast<std::byte*>(piece.iov_base) + offset_,
                         .iov_len = length};
      octets -= length;
      offset_ += length;
      if (offset_ == piece.iov_len) {
        pieces_ = pieces_.subspan(1);
        offset_ = 0;
      }
    }
    return {taken_.data(), count};
  }

 private:
  std::span<const iovec> pieces_;
  std::size_t offset_ = 0;  // in the first of them
  std::array<iovec, kPieceLimit> taken_;
};

}  // namespace

// ---- Coming together ----

Target::Target(std::shared_ptr<host::Peer> peer, const Own& own, const Self& self,
               Instant (*clock)()) noexcept
    : peer_(std::move(peer)), own_bell_(own.bell), self_(self), clock_(clock) {
  const host::SegmentHeader& header =
      peer_ == nullptr ? *std::bit_cast<const host::SegmentHeader*>(own.segment) : peer_->header();
  segment_octets_ = header.octets;
  segment_ = peer_ == nullptr ? own.segment : peer_->at(0, 0);
  const auto record_of = [](std::byte* segment, const host::SegmentHeader& of,
                            wire::QpNumber number) -> HalfRecord* {
    const std::uint32_t index = static_cast<std::uint32_t>(number) % host::Bells::kCount;
    const bool is_there =
        of.holds(of.halves_at, of.half_count, sizeof(HalfRecord)) && index < of.half_count;
    return is_there ? std::bit_cast<HalfRecord*>(segment + of.halves_at) + index : nullptr;
  };
  record_ = record_of(segment_, header, self.dest_qp);
  const auto& own_header = *std::bit_cast<const host::SegmentHeader*>(own.segment);
  visiting_ = &record_of(own.segment, own_header, self.number)->visiting;
  bells_ = host::Bells(segment_ + header.bells_at);
  keys_ = memory::KeyTable(
      {std::bit_cast<memory::KeyEntry*>(segment_ + header.keys_at), header.key_count},
      header.first_key);
  const bool both_can = Fencing(header.fencing) == Fencing::kExpedited &&
                        host::Membarrier::global() == Fencing::kExpedited;
  fencing_ = both_can ? Fencing::kExpedited : Fencing::kFenced;
  reach_ = peer_ == nullptr ? Reach::own()
                            : Reach(peer_->arena(), own.has_peer_calls ? peer_->memory() : -1);
}

Target::Meeting Target::meet() noexcept {
  if (record_ == nullptr) return Meeting::kStrangers;
  std::atomic_ref gate(record_->gate);
  std::atomic_ref claim(record_->claim);
  if (gate.load(std::memory_order_acquire) != HalfRecord::kOpen) return Meeting::kNotYet;
  std::uint64_t open = claim.load(std::memory_order_acquire);
  const bool fits = record_->dest_qp == self_.number && record_->type == self_.type &&
                    record_->remote == self_.local && record_->local == self_.remote &&
                    record_->path_mtu == self_.path_mtu && record_->pkey == self_.pkey &&
                    record_->first_psn == self_.send_psn;
  const auto life = static_cast<std::uint32_t>(open >> 32);
  if (!fits || open != HalfRecord::claim_of(life, HalfRecord::kNobody)) {
    return Meeting::kStrangers;
  }
  bind_parts();
  if (state_ == nullptr) return Meeting::kStrangers;
  const std::uint32_t us = static_cast<std::uint32_t>(self_.number) | HalfRecord::kDirectBit;
  claim_ = HalfRecord::claim_of(life, us);
  // What was read above is of this life, or the claim fails.
  if (!claim.compare_exchange_strong(open, claim_, std::memory_order_acq_rel)) {
    return Meeting::kNotYet;
  }
  full_fence();  // the owner, having withdrawn a key, sees the claim, or we see it withdrawn
  return Meeting::kMet;
}

/// Every part is where the owner says, or there is none.
void Target::bind_parts() noexcept {
  // From there to the end of the segment; each word is read once.
  const auto from = [&](std::uint64_t& word) -> std::span<std::byte> {
    const std::uint64_t at = std::atomic_ref(word).load(std::memory_order_relaxed);
    const bool is_inside = at != 0 && at % 64 == 0 && at < segment_octets_;
    return is_inside ? std::span(segment_ + at, segment_octets_ - at) : std::span<std::byte>();
  };
  state_ = nullptr;
  const auto state = from(record_->responder_at);
  const auto lane = transport::CompletionLane::attach(from(record_->lane_at));
  const std::uint32_t hint = std::atomic_ref(record_->lane_hint).load(std::memory_order_relaxed);
  board_ = transport::CompletionBoard::attach(from(record_->board_at));
  receive_ = transport::ReceiveQueue::attach(from(record_->receive_at));
  shared_ = transport::SharedReceiveQueue::attach(from(record_->shared_at), fencing_);
  const bool is_whole = state.size() >= sizeof(transport::ResponderState) && lane.exists() &&
                        board_.exists() && hint < board_.hint_count() &&
                        receive_.exists() != shared_.exists();
  if (!is_whole) return;
  state_ = std::bit_cast<transport::ResponderState*>(state.data());
  landing_ = transport::Landing(state_, receive_, shared_, {lane, board_, hint, fencing_}, keys_);
}

void Target::call_owner() noexcept {
  calls_owner_ = false;
  bells_.raise(static_cast<std::uint32_t>(self_.dest_qp));
  if (peer_ != nullptr) return peer_->ring();
  if (own_bell_ != nullptr) host::ring(*own_bell_);
}

// ---- Errands ----

bool Target::stand_in() noexcept {
  if (record_ == nullptr) return false;
  visiting_ = &standing_in_;  // nobody waits for us: the owner's lock is held
  claim_ = std::atomic_ref(record_->claim).load(std::memory_order_acquire);
  const std::uint32_t requester = static_cast<std::uint32_t>(self_.number) | HalfRecord::kDirectBit;
  if (static_cast<std::uint32_t>(claim_) != requester) return false;
  self_.type = record_->type;
  bind_parts();
  return state_ != nullptr;
}

void Target::execute(Errand& errand, std::span<std::byte> octets) noexcept {
  const SendEntry& entry = errand.entry;
  const iovec piece{.iov_base = octets.data(), .iov_len = errand.octets};
  const Chunk chunk{.offset = errand.offset,
                    .octets = errand.octets,
                    .is_first = errand.is_first,
                    .is_last = errand.is_last,
                    .pieces = {&piece, errand.octets == 0 ? 0U : 1U}};
  errand.answer = Answer::kSilence;
  if (enter()) {
    switch (entry.opcode) {
      case SendOpcode::kSend:
      case SendOpcode::kSendImm:
      case SendOpcode::kSendInvalidate:
        errand.answer = send(entry, chunk);
        break;
      case SendOpcode::kWrite:
      case SendOpcode::kWriteImm:
        errand.answer = write(entry, chunk);
        break;
      case SendOpcode::kRead:
        errand.answer = read(entry, chunk);
        break;
      case SendOpcode::kCompareSwap:
      case SendOpcode::kFetchAdd:
        errand.answer = atomic(entry, errand.original);
        break;
      case SendOpcode::kAtomicWrite:
        errand.answer = atomic_write(entry, errand.original);
        break;
      case SendOpcode::kFlush:
      case SendOpcode::kLocalInvalidate:
      case SendOpcode::kBindWindow:
        break;
    }
  }
  leave();
}

// ---- Refusing ----

/// The half ends, as its own responder would have ended it; the owner finishes that. An unreliable
/// connection loses what it cannot take, and the sender does not hear of it.
Answer Target::refuse(const Judgement& judgement) noexcept {
  const auto consequence = transport::consequence_of(judgement.verdict);
  if (!is_reliable() && !consequence.ends_unreliable) {
    landing_.abandon_message();
    return Answer::kLost;
  }
  if (judgement.verdict == Verdict::kNotReady) return Answer::kNotReady;
  transport::end_half(*state_, landing_, judgement);
  calls_owner_ = true;
  return is_reliable() ? direct::answer_of(consequence.nak) : Answer::kLost;
}

/// Octets of the peer's that are registered could not be reached.
Answer Target::answer_of(Reached reached) noexcept {
  switch (reached) {
    case Reached::kYes:
      return Answer::kDone;
    case Reached::kForbidden:
      return Answer::kOwnerNeeded;
    case Reached::kGone:
      mark_gone();
      return Answer::kSilence;
    case Reached::kRevoked: {
      constexpr Reason kReason = reason_of(memory::Refusal::kInvalidated);
      if (!is_ours()) return Answer::kSilence;
      // The key that went is that of the receive, or that of the request.
      const bool is_receive = state_->inbound == transport::Inbound::kSend;
      return refuse({is_receive ? Verdict::kPlacementFailed : Verdict::kAccessRefused, kReason});
    }
    case Reached::kNotMapped:
    case Reached::kByCall:
      break;
  }
  return refuse({Verdict::kPlacementFailed, Reason::kMemoryGone});
}

// ---- Reaching the peer's memory ----

/// The owner must be able to wait for a system call that reaches memory which it takes away: it is
/// told before the call is made. Either it finds that, or we find that the memory is taken away.
template <typename Call>
Reached Target::announce(const Place& place, Call&& call) noexcept {
  std::atomic_ref(visiting_->call_at).store(place.grant.address, std::memory_order_relaxed);
  std::atomic_ref octets(visiting_->call_octets);
  octets.store(place.octets, std::memory_order_release);
  fence_if(fencing_);  // pairs with the barrier in Half::await(), or stands for it
  const Permission permission{.entry = place.grant.entry,
                              .key = static_cast<std::uint32_t>(place.key),
                              .generation = place.grant.generation};
  const bool may_call = is_ours() && permission.lasts();
  const Reached reached = may_call ? call(permission) : Reached::kRevoked;
  octets.store(0, std::memory_order_release);
  return reached;
}

Reached Target::store(const Place& place, std::span<const iovec> pieces) noexcept {
  const Reached reached = reach_.write(place.grant, pieces, place.octets);
  if (reached != Reached::kByCall) [[likely]]
    return reached;
  return in_parts(place, pieces, [this](const Place& part, auto of_part, bool is_end) {
    const Reached written = reach_.write(part.grant, of_part, part.octets);
    if (written != Reached::kByCall) return written;
    return announce(part, [&](const Permission& permission) {
      return reach_.write_by_call(part.grant.address, of_part, part.octets, is_end, permission);
    });
  });
}

Reached Target::load(const Place& place, std::span<const iovec> pieces) noexcept {
  const Reached reached = reach_.read(place.grant, pieces, place.octets);
  if (reached != Reached::kByCall) [[likely]]
    return reached;
  return in_parts(place, pieces, [this](const Place& part, auto of_part, bool) {
    const Reached read = reach_.read(part.grant, of_part, part.octets);
    if (read != Reached::kByCall) return read;
    return announce(part, [&](const Permission& permission) {
      return reach_.read_by_call(part.grant.address, of_part, part.octets, permission);
    });
  });
}

/// The pages at the edges of a region may be private while all between is shared: what is before,
/// what is shared, what is behind, in this order. Mostly there is but one of them.
template <typename Move>
Reached Target::in_parts(const Place& place, std::span<const iovec> pieces, Move&& move) noexcept {
  const memory::SharedPart shared = place.grant.shared;
  const std::array<std::uint64_t, 4> borders{0, shared.offset, shared.offset + shared.octets,
                                             place.octets};
  PieceCursor cursor(pieces);
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    const std::uint64_t octets = borders[i + 1] - borders[i];
    if (octets == 0) continue;
    const auto backing = i == 1 ? memory::Backing::kShared : memory::Backing::kPrivate;
    const Place part{
        .grant = place.grant.from(borders[i], backing), .key = place.key, .octets = octets};
    const bool is_end = borders[i + 1] == place.octets;
    if (const Reached reached = move(part, cursor.take(octets), is_end); reached != Reached::kYes) {
      return reached;
    }
  }
  return Reached::kYes;
}

// ---- The checks ----

/// The checks of a request before its key is looked at.
Judgement Target::judge(const Request& request) const noexcept {
  if (const auto no = transport::check_allowed(*state_, request.kind); !no.accepted()) return no;
  return transport::check_form(request);
}

/// Octets that were reached by a pointer may have been those of pages which the owner has replaced
/// by then. A system call reaches the pages that the owner has at that address.
bool Target::counts_late(const SendEntry& entry) const noexcept {
  if (!is_ours()) return false;
  const Request request = transport::request_of(entry);
  if (request.kind == RequestKind::kSend || entry.octets == 0) return true;
  auto want = transport::want_of(*state_, request, 0, entry.octets);
  want.need = memory::Access::kNone;
  const auto grant = keys_.check_remote(want);
  return grant && grant->generation == granted_.generation &&
         (!granted_.by_pointer || has_shared_octets(*grant));
}

bool Target::counts_late(transport::ShortRequest request) noexcept {
  granted_ = {.generation = known_target_.said.status.generation, .by_pointer = peer_ != nullptr};
  return counts_late(request.entry());
}

// ---- SEND and WRITE ----

Answer Target::send(const SendEntry& entry, const Chunk& chunk) noexcept {
  if (!landing_.take_receive()) return refuse({Verdict::kNotReady, Reason::kNoReceive});
  if (chunk.is_first) {
    if (const auto no = transport::check_room(landing_, entry.octets); !no.accepted()) {
      return refuse(no);
    }
    state_->arrived = 0;
    state_->scatter = {};
    state_->inbound = transport::Inbound::kSend;
  }
  memory::SgeCursor cursor = state_->scatter;
  if (const Answer placed = scatter(chunk, cursor); placed != Answer::kDone) return placed;
  if (chunk.is_last) return finish_receive(entry, state_->arrived + chunk.octets);
  // Its octets may be in pages that no program sees. The chunk comes again, to the same place.
  if (is_given_up()) [[unlikely]]
    return ignore_late();
  state_->scatter = cursor;
  state_->arrived += chunk.octets;
  return Answer::kDone;
}

/// Two lists, ours and the receive's, each piece of the one into pieces of the other.
Answer Target::scatter(const Chunk& chunk, memory::SgeCursor& cursor) noexcept {
  PieceCursor from(chunk.pieces);
  const auto list = landing_.list();
  std::uint32_t left = chunk.octets;
  while (left > 0) {
    if (cursor.index >= list.size()) {
      return refuse({Verdict::kPlacementFailed, reason_of(memory::Refusal::kBeyondRange)});
    }
    const memory::Sge sge = list[cursor.index];  // read once
    const std::uint32_t octets = std::min(left, sge.octets - std::min(cursor.offset, sge.octets));
    if (octets > 0) {
      const Answer placed = place(sge, cursor.offset, octets, from.take(octets));
      if (placed != Answer::kDone) return placed;
    }
    left -= octets;
    cursor.offset += octets;
    if (cursor.offset >= sge.octets) cursor = {.index = cursor.index + 1, .offset = 0};
  }
  return Answer::kDone;
}

Answer Target::place(const memory::Sge& sge, std::uint32_t offset, std::uint32_t octets,
                     std::span<const iovec> pieces) noexcept {
  const auto grant = keys_.check_local({.key = sge.lkey,
                                        .domain = landing_.list_domain(),
                                        .qp = {},
                                        .address = sge.address + offset,
                                        .octets = octets,
                                        .need = memory::Access::kLocalWrite});
  if (!grant) return refuse({Verdict::kPlacementFailed, reason_of(grant.error())});
  const Reached reached = store({.grant = *grant, .key = sge.lkey, .octets = octets}, pieces);
  return reached == Reached::kYes ? Answer::kDone : answer_of(reached);
}

Answer Target::write(const SendEntry& entry, const Chunk& chunk) noexcept {
  const Request request = transport::request_of(entry);
  if (chunk.is_first) {
    if (const auto no = judge(request); !no.accepted()) [[unlikely]]
      return refuse(no);
  }
  const bool completes = chunk.is_last && takes_receive(request);
  // A receive is taken by the last packet, and the key is looked at with the first (9.7.4.1).
  const bool has_more_packets = completes && entry.octets > state_->path_mtu;
  if (chunk.is_first && (!chunk.is_last || has_more_packets)) {
    const auto whole = transport::check_key(keys_, *state_, request);
    if (!whole) return refuse(whole.error());
  }
  if (completes && !landing_.take_receive())
    return refuse({Verdict::kNotReady, Reason::kNoReceive});
  const auto grant = transport::check_key(keys_, *state_, request, chunk.offset, chunk.octets);
  if (!grant) [[unlikely]]
    return refuse(grant.error());
  note(*grant);
  const Reached reached =
      store({.grant = *grant, .key = entry.rkey, .octets = chunk.octets}, chunk.pieces);
  if (reached != Reached::kYes) [[unlikely]]
    return answer_of(reached);
  if (!chunk.is_last) return Answer::kDone;
  if (completes) return finish_receive(entry, entry.octets);
  ++state_->msn;
  return Answer::kDone;
}

Answer Target::finish_receive(const SendEntry& entry, std::uint32_t octets) noexcept {
  // What we have written may be in no receive any more; then nobody is told of it.
  if (is_given_up()) [[unlikely]]
    return ignore_late();
  const auto judgement = transport::finish_receive(
      transport::request_of(entry), octets, *state_, landing_,
      [this](const Completion& completion) noexcept { return put_out(completion); });
  return judgement.accepted() ? Answer::kDone : refuse(judgement);
}

// ---- READ, atomics, FLUSH ----

Answer Target::begin_read(const SendEntry& entry) noexcept {
  const Request request = transport::request_of(entry);
  if (const auto no = judge(request); !no.accepted()) return refuse(no);
  const auto whole = transport::check_key(keys_, *state_, request);
  if (!whole) return refuse(whole.error());
  ++state_->msn;
  return Answer::kDone;
}

Answer Target::read(const SendEntry& entry, const Chunk& chunk) noexcept {
  const auto grant = transport::check_key(keys_, *state_, transport::request_of(entry),
                                          chunk.offset, chunk.octets);
  if (!grant) return refuse(grant.error());
  note(*grant);
  begin_reading();
  const Reached reached =
      load({.grant = *grant, .key = entry.rkey, .octets = chunk.octets}, chunk.pieces);
  end_reading();
  return answer_of(reached);
}

Answer Target::execute_eight(const Request& request, std::uint64_t& original) noexcept {
  if (const auto no = judge(request); !no.accepted()) [[unlikely]]
    return refuse(no);
  const auto grant = transport::find_eight(keys_, *state_, request);
  if (!grant) [[unlikely]]
    return refuse(grant.error());
  note(*grant);
  std::byte* const at = reach_.pointer(*grant, sizeof original);
  if (at == nullptr) return Answer::kOwnerNeeded;
  reach_.touch(at, sizeof original);
  original = transport::execute_eight(request, at);
  ++state_->msn;
  return Answer::kDone;
}

Answer Target::atomic(const SendEntry& entry, std::uint64_t& original) noexcept {
  return execute_eight(transport::request_of(entry), original);
}

Answer Target::atomic_write(const SendEntry& entry, std::uint64_t value) noexcept {
  Request request = transport::request_of(entry);
  request.operand = value;
  std::uint64_t ignored;
  return execute_eight(request, ignored);
}

Answer Target::flush(const SendEntry& entry) noexcept {
  const Request request = transport::request_of(entry);
  if (const auto no = judge(request); !no.accepted()) return refuse(no);
  const auto grant = transport::check_key(keys_, *state_, request);
  if (!grant) return refuse(grant.error());
  note(*grant);
  transport::execute_flush(*state_);
  return Answer::kDone;
}

// ---- Waiting for a receive ----

Duration Target::receiver_delay() const noexcept { return wire::rnr_delay(state_->min_rnr_timer); }

/// The barrier is a fence in the owner at one point of its posting: behind the receive, and then we
/// see it; or before, and then it sees that we wait.
bool Target::begin_waiting() noexcept {
  std::atomic_ref(record_->waits)
      .store(static_cast<std::uint32_t>(claim_ >> 32), std::memory_order_relaxed);
  host::Membarrier::all_processes();
  return has_receive();
}

void Target::end_waiting() noexcept {
  std::atomic_ref(record_->waits).store(0, std::memory_order_relaxed);
}

bool Target::has_receive() noexcept {
  return shared_.exists() ? shared_.waiting_count() > 0 : receive_.posted_count() > 0;
}

}  // namespace verbatim::direct
