// SPDX-License-Identifier: Apache-2.0
#include "direct/target.h"

#include <algorithm>
#include <utility>

#include "direct/piece_cursor.h"
#include "transport/rules/message_end.h"
#include "transport/rules/request_rules.h"
#include "wire/headers/aeth.h"

namespace verbatim::direct {

using transport::Completion;
using transport::Judgement;
using transport::Reason;
using transport::reason_of;
using transport::Request;
using transport::RequestKind;
using transport::SendEntry;
using transport::Verdict;

Target::Target(std::shared_ptr<host::Peer> peer, const Own& own, const Self& self,
               Instant (*clock)()) noexcept
    : visit_(peer, own, self),
      keys_(visit_.keys()),
      memory_(peer == nullptr ? Reach::own()
                              : Reach(peer->arena(), own.has_peer_calls ? peer->memory() : -1)),
      clock_(clock) {}

Target::Meeting Target::meet() noexcept {
  HalfParts parts;
  const Meeting meeting = visit_.meet(parts);
  if (meeting == Meeting::kMet) adopt(parts);
  return meeting;
}

bool Target::stand_in() noexcept {
  HalfParts parts;
  if (!visit_.stand_in(parts)) return false;
  adopt(parts);
  return true;
}

void Target::adopt(const HalfParts& parts) noexcept {
  board_ = parts.board;
  receive_ = parts.receive;
  shared_ = parts.shared;
  landing_ = transport::Landing(parts.state, receive_, shared_,
                                {parts.lane, board_, parts.lane_hint, visit_.fencing()}, keys_);
}

// ---- Refusing ----

/// Puts the half into the state that a responder of packets would put it into, and wakes the owner,
/// which finishes that. An unreliable connection drops the request without a response.
Answer Target::refuse(const Judgement& judgement) noexcept {
  const auto consequence = transport::consequence_of(judgement.verdict);
  if (!visit_.is_reliable() && !consequence.ends_unreliable) {
    landing_.abandon_message();
    return Answer::kLost;
  }
  if (judgement.verdict == Verdict::kNotReady) return Answer::kNotReady;
  transport::end_half(state(), landing_, judgement);
  visit_.call_owner();
  return visit_.is_reliable() ? direct::answer_of(consequence.nak) : Answer::kLost;
}

/// The answer when registered octets of the peer could not be reached.
Answer Target::answer_of(Reached reached) noexcept {
  switch (reached) {
    case Reached::kYes:
      return Answer::kDone;
    case Reached::kForbidden:
      return Answer::kOwnerNeeded;
    case Reached::kGone:
      visit_.mark_gone();
      return Answer::kSilence;
    case Reached::kRevoked: {
      constexpr Reason kReason = reason_of(memory::Refusal::kInvalidated);
      if (visit_.is_locked_out()) return Answer::kSilence;
      // The key that became invalid is that of the receive, or that of the request.
      const bool is_receive = state().inbound == transport::Inbound::kSend;
      return refuse({is_receive ? Verdict::kPlacementFailed : Verdict::kAccessRefused, kReason});
    }
    case Reached::kNotMapped:
    case Reached::kByCall:
      break;
  }
  return refuse({Verdict::kPlacementFailed, Reason::kMemoryGone});
}

// ---- The checks ----

/// The checks of a request that come before the check of its key.
[[gnu::always_inline]] inline Judgement Target::judge(const Request& request) const noexcept {
  if (const auto no = transport::check_allowed(state(), request.kind); !no.accepted()) return no;
  return transport::check_form(request);
}

/// Octets that were stored through a pointer may have gone to pages that the owner had replaced
/// already. A system call reaches the pages that the owner has at the address at that time.
bool Target::counts_late(const SendEntry& entry) const noexcept {
  if (visit_.is_locked_out()) return false;
  const Request request = transport::request_of(entry);
  if (request.kind == RequestKind::kSend || entry.octets == 0) return true;
  auto want = transport::want_of(state(), request, 0, entry.octets);
  want.need = memory::Access::kNone;
  const auto grant = keys_.check_remote(want);
  return grant && grant->generation == granted_.generation &&
         (!granted_.by_pointer || has_shared_octets(*grant));
}

bool Target::counts_late(transport::ShortRequest request) noexcept {
  granted_ = {.generation = known_target_.copy.status.generation,
              .by_pointer = visit_.is_elsewhere()};
  return counts_late(request.entry());
}

// ---- SEND and WRITE ----

Answer Target::send(const SendEntry& entry, const Chunk& chunk) noexcept {
  if (!landing_.take_receive()) return refuse({Verdict::kNotReady, Reason::kNoReceive});
  if (chunk.is_first) {
    if (const auto no = transport::check_room(landing_, entry.octets); !no.accepted()) {
      return refuse(no);
    }
    state().arrived = 0;
    state().scatter = {};
    state().inbound = transport::Inbound::kSend;
  }
  memory::SgeCursor cursor = state().scatter;
  if (const Answer placed = scatter(chunk, cursor); placed != Answer::kDone) return placed;
  if (chunk.is_last) {
    return finish_receive(transport::request_of(entry, RequestKind::kSend),
                          state().arrived + chunk.octets);
  }
  // The octets may be in pages that the owner has replaced. The chunk is sent again to the same
  // place.
  if (visit_.is_given_up()) [[unlikely]]
    return ignore_late();
  state().scatter = cursor;
  state().arrived += chunk.octets;
  return Answer::kDone;
}

/// Copies from the pieces of the chunk into those of the receive's list.
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
  const Reached reached =
      memory_.store(visit_, {.grant = *grant, .key = sge.lkey, .octets = octets}, pieces);
  return reached == Reached::kYes ? Answer::kDone : answer_of(reached);
}

Answer Target::write(const SendEntry& entry, const Chunk& chunk) noexcept {
  const Request request = transport::request_of(entry, RequestKind::kWrite);
  if (chunk.is_first) {
    if (const auto no = judge(request); !no.accepted()) [[unlikely]]
      return refuse(no);
  }
  const bool completes = chunk.is_last && takes_receive(request);
  // On the wire the last packet takes the receive, and the first one checks the key (9.7.4.1).
  const bool has_more_packets = completes && entry.octets > state().path_mtu;
  if (chunk.is_first && (!chunk.is_last || has_more_packets)) {
    const auto whole = transport::ask_key(keys_, state(), request);
    if (!whole) return refuse(transport::refused_by_key(whole.error()));
  }
  if (completes && !landing_.take_receive())
    return refuse({Verdict::kNotReady, Reason::kNoReceive});
  const auto grant = transport::ask_key(keys_, state(), request, chunk.offset, chunk.octets);
  if (!grant) [[unlikely]]
    return refuse(transport::refused_by_key(grant.error()));
  note(*grant);
  const Reached reached = memory_.store(
      visit_, {.grant = *grant, .key = entry.rkey, .octets = chunk.octets}, chunk.pieces);
  if (reached != Reached::kYes) [[unlikely]]
    return answer_of(reached);
  if (!chunk.is_last) return Answer::kDone;
  if (completes) {
    return finish_receive(transport::request_of(entry, RequestKind::kWrite), entry.octets);
  }
  ++state().msn;
  return Answer::kDone;
}

Answer Target::finish_receive(Request request, std::uint32_t octets) noexcept {
  // The octets may have gone to memory that is no longer the receive's. Then the receive does not
  // complete.
  if (visit_.is_given_up()) [[unlikely]]
    return ignore_late();
  const auto judgement = transport::finish_receive(
      request, octets, state(), landing_,
      [this](const Completion& completion) noexcept { return complete_receive(completion); });
  return judgement.accepted() ? Answer::kDone : refuse(judgement);
}

// ---- READ, atomics, FLUSH ----

Answer Target::begin_read(const SendEntry& entry) noexcept {
  const Request request = transport::request_of(entry, RequestKind::kRead);
  if (const auto no = judge(request); !no.accepted()) return refuse(no);
  const auto whole = transport::ask_key(keys_, state(), request);
  if (!whole) return refuse(transport::refused_by_key(whole.error()));
  ++state().msn;
  return Answer::kDone;
}

Answer Target::read(const SendEntry& entry, const Chunk& chunk) noexcept {
  const Request request = transport::request_of(entry, RequestKind::kRead);
  const auto grant = transport::ask_key(keys_, state(), request, chunk.offset, chunk.octets);
  if (!grant) return refuse(transport::refused_by_key(grant.error()));
  note(*grant);
  begin_reading();
  const Reached reached = memory_.load(
      visit_, {.grant = *grant, .key = entry.rkey, .octets = chunk.octets}, chunk.pieces);
  end_reading();
  return answer_of(reached);
}

[[gnu::always_inline]] inline Answer Target::execute_eight(const Request& request,
                                                           std::uint64_t& original) noexcept {
  if (const auto no = judge(request); !no.accepted()) [[unlikely]]
    return refuse(no);
  const auto grant = transport::ask_key(keys_, state(), request, 0, sizeof original);
  if (const auto no = transport::check_grant(request, grant); !no.accepted()) [[unlikely]]
    return refuse(no);
  note(*grant);
  std::byte* const at = memory_.touch_eight(*grant);
  if (at == nullptr) return Answer::kOwnerNeeded;
  original = transport::execute_eight(request, at);
  ++state().msn;
  return Answer::kDone;
}

/// The kind is a constant in each of the two calls, which makes an atomic fast.
Answer Target::atomic(const SendEntry& entry, std::uint64_t& original) noexcept {
  if (entry.opcode == transport::SendOpcode::kCompareSwap) {
    return execute_eight(transport::request_of(entry, RequestKind::kCompareSwap), original);
  }
  return execute_eight(transport::request_of(entry, RequestKind::kFetchAdd), original);
}

Answer Target::atomic_write(const SendEntry& entry, std::uint64_t value) noexcept {
  Request request = transport::request_of(entry, RequestKind::kAtomicWrite);
  request.operand = value;
  std::uint64_t ignored;
  return execute_eight(request, ignored);
}

Answer Target::flush(const SendEntry& entry) noexcept {
  const Request request = transport::request_of(entry, RequestKind::kFlush);
  if (const auto no = judge(request); !no.accepted()) return refuse(no);
  const auto grant = transport::ask_key(keys_, state(), request);
  if (!grant) return refuse(transport::refused_by_key(grant.error()));
  note(*grant);
  transport::execute_flush(state());
  return Answer::kDone;
}

// ---- Waiting for a receive ----

Duration Target::receiver_delay() const noexcept { return wire::rnr_delay(state().min_rnr_timer); }

bool Target::has_receive() noexcept {
  return shared_.exists() ? shared_.waiting_count() > 0 : receive_.posted_count() > 0;
}

}  // namespace verbatim::direct
