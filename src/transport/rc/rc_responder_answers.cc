// SPDX-License-Identifier: Apache-2.0
// The answers of a responder: acknowledgements, refusals and data, and their repetition for
// duplicate requests.
#include "transport/rc/rc_responder.h"
#include "transport/rules/message_end.h"
#include "transport/rules/request_rules.h"
#include "transport/segmentation.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::transport {

using wire::Operation;
using wire::PacketView;
using wire::Psn;
using wire::Syndrome;

void RcResponder::owe(Syndrome syndrome, Psn psn) noexcept {
  state_->answer_owed = true;
  state_->answer = syndrome;
  state_->answer_psn = psn;
  state_->answer_msn = state_->msn;
}

void RcResponder::refuse(const PacketView& packet, const Judgement& judgement) noexcept {
  if (judgement.verdict == Verdict::kNotReady) {
    ++counters_.not_ready;
    owe(Syndrome::rnr(state_->min_rnr_timer), packet.psn());
    state_->nak_sent = true;
    return;
  }
  ++counters_.refused;
  fail(packet.psn(), judgement);
}

/// Ends the half, with a NAK if the verdict has one.
void RcResponder::fail(Psn psn, const Judgement& judgement) noexcept {
  const auto nak = consequence_of(judgement.verdict).nak;
  if (nak) owe(Syndrome::nak(*nak), psn);
  end_half(*state_, landing_, judgement);
}

void RcResponder::handle_fault_while_executing() noexcept {
  fail(state_->expected_psn, {Verdict::kPlacementFailed, Reason::kMemoryGone});
}

void RcResponder::handle_fault_while_answering() noexcept {
  const Judgement judgement{Verdict::kPlacementFailed, Reason::kMemoryGone};
  const ReplayEntry* entry = next_pending();
  entry == nullptr ? fail(state_->expected_psn, judgement) : fail_answer(*entry, judgement);
}

/// The memory of an owed answer cannot be read: the rest of the READ is refused.
void RcResponder::fail_answer(const ReplayEntry& entry, const Judgement& judgement) noexcept {
  drop_answers();
  fail(entry.first_psn + entry.next, judgement);
  state_->answer_msn = entry.msn - 1;  // without this request, which was counted when accepted
}

// ---- Duplicates ----

namespace {

/// The kind of the entry that remembers the request.
ReplayEntry::Kind replay_kind(RequestKind kind) noexcept {
  if (kind == RequestKind::kRead) return ReplayEntry::Kind::kRead;
  if (kind == RequestKind::kFlush) return ReplayEntry::Kind::kFlush;
  if (kind == RequestKind::kAtomicWrite) return ReplayEntry::Kind::kAtomicWrite;
  return ReplayEntry::Kind::kAtomic;
}

}  // namespace

void RcResponder::answer_duplicate(const PacketView& packet) noexcept {
  const RequestKind kind = kind_of(packet.operation());
  if (kind == RequestKind::kRead) {
    repeat_read(packet);
    return;
  }
  if (is_of_eight(kind) || kind == RequestKind::kFlush) {
    const auto age = find_replay(packet.psn());
    if (!age || replay_at(*age).kind != replay_kind(kind)) return;
    send_again(*age);
    return;
  }
  if (!packet.bth().ack_request() || state_->answer_owed) return;
  // Acknowledge as much as possible, but nothing behind an answer that may have been lost: the
  // requester would take that as an implied NAK (9.7.5.1.3).
  Psn newest = state_->expected_psn - 1;
  for (std::uint32_t age = 0; age < state_->replay_count; ++age) {
    const ReplayEntry& entry = replay_at(age);
    if (!packet.psn().is_before(entry.first_psn + entry.packets)) continue;
    newest = entry.first_psn - 1;
    break;
  }
  owe(Syndrome::ack(), newest);
}

/// A repeated READ is answered from memory, beginning with the packet that it asks for, if it is
/// the rest of one in the replay; otherwise it is dropped (9.7.5.1.3).
void RcResponder::repeat_read(const PacketView& packet) noexcept {
  const auto age = find_replay(packet.psn());
  if (!age || replay_at(*age).kind != ReplayEntry::Kind::kRead) return;
  ReplayEntry* const entry = &replay_at(*age);
  const wire::Reth reth = packet.reth();
  const auto skipped = static_cast<std::uint32_t>(packet.psn().distance_from(entry->first_psn));
  const std::uint64_t offset = std::uint64_t{skipped} * state_->path_mtu;
  if (reth.rkey != entry->rkey || reth.address != entry->address + offset ||
      offset + reth.dma_octets != entry->octets) {
    return;
  }
  // A delayed copy may arrive when its key is invalid. It must not end the connection.
  if (!ask_key(landing_.keys(), *state_, request_of(packet))) return;
  send_again(*age);
  entry->start = entry->next = skipped;
}

ReplayEntry& RcResponder::replay_at(std::uint32_t age) noexcept {
  return replay_[(state_->replay_oldest + age) % kMaxReadAtomic];
}

/// The age of the oldest entry that may have packets to send.
std::uint32_t RcResponder::first_pending_age() const noexcept {
  const std::uint32_t age = state_->replay_from - state_->replay_oldest;
  return age > state_->replay_count ? 0 : age;  // the entries before it have been forgotten
}

void RcResponder::send_again(std::uint32_t age) noexcept {
  ReplayEntry& entry = replay_at(age);
  if (!entry.pending) ++state_->replay_pending;
  entry.pending = true;
  if (first_pending_age() > age) state_->replay_from = state_->replay_oldest + age;
}

ReplayEntry& RcResponder::remember(RequestKind kind, Psn psn) noexcept {
  while (state_->replay_count >= state_->replay_limit) forget_oldest();
  ReplayEntry& entry = replay_at(state_->replay_count++);
  entry = {.kind = replay_kind(kind), .pending = true, .first_psn = psn, .msn = state_->msn};
  ++state_->replay_pending;
  return entry;
}

void RcResponder::forget_oldest() noexcept {
  if (replay_at(0).pending) --state_->replay_pending;  // a repetition that is no longer needed
  ++state_->replay_oldest;
  --state_->replay_count;
}

/// Sequence numbers wrap. An entry so far behind that it might soon count as ahead is dropped: a
/// requester has far fewer numbers in flight, so it cannot ask for it again.
void RcResponder::forget_ancient() noexcept {
  constexpr std::uint32_t kAncient = 1U << 22;
  while (state_->replay_count > 0) {
    const ReplayEntry& oldest = replay_at(0);
    const Psn age(state_->expected_psn.raw() - (oldest.first_psn + oldest.packets).raw());
    if (age.raw() < kAncient) return;
    forget_oldest();
  }
}

std::optional<std::uint32_t> RcResponder::find_replay(Psn psn) noexcept {
  for (std::uint32_t age = 0; age < state_->replay_count; ++age) {
    if (replay_at(age).contains(psn)) return age;
  }
  return std::nullopt;
}

ReplayEntry* RcResponder::next_pending() noexcept {
  if (state_->replay_pending == 0) return nullptr;
  // Most entries have been answered; the search does not visit them for every packet.
  std::uint32_t age = first_pending_age();
  while (age < state_->replay_count && !replay_at(age).pending) ++age;
  state_->replay_from = state_->replay_oldest + age;
  return age < state_->replay_count ? &replay_at(age) : nullptr;
}

// ---- Sending answers ----

[[gnu::flatten]] std::size_t RcResponder::poll_transmit(
    const Path& path, std::span<std::byte> frame, std::uint16_t ipv4_identification) noexcept {
  // Answers leave in the order of their sequence numbers (9.7.5.1).
  ReplayEntry* entry = next_pending();
  const bool answer_first =
      state_->answer_owed &&
      (entry == nullptr || state_->answer_psn.is_before(entry->first_psn + entry->next));
  if (answer_first) return send_answer(path, frame, ipv4_identification);
  return entry == nullptr ? 0 : send_replay(*entry, path, frame, ipv4_identification);
}

namespace {

wire::PacketHeaders answer_headers(const ResponderState& state, const Path& path,
                                   wire::Opcode opcode, Psn psn) noexcept {
  wire::PacketHeaders headers;
  headers.bth.opcode = opcode;
  headers.bth.migrated = true;
  headers.bth.pkey = path.pkey;
  headers.bth.dest_qp = state.dest_qp;
  headers.bth.psn = psn;
  return headers;
}

/// First, Middle, Last or Only, relative to the start of this transmission, not of the READ.
Operation read_response(const ReplayEntry& entry) noexcept {
  const bool first = entry.next == entry.start;
  const bool last = entry.next + 1 == entry.packets;
  if (first) return last ? Operation::kReadResponseOnly : Operation::kReadResponseFirst;
  return last ? Operation::kReadResponseLast : Operation::kReadResponseMiddle;
}

}  // namespace

std::size_t RcResponder::send_answer(const Path& path, std::span<std::byte> frame,
                                     std::uint16_t identification) noexcept {
  state_->answer_owed = false;
  auto headers = answer_headers(*state_, path, wire::opcode_of(transport_, Operation::kAcknowledge),
                                state_->answer_psn);
  headers.aeth = {.syndrome = state_->answer, .msn = state_->answer_msn};
  wire::PacketBuilder builder(frame, headers, 0,
                              {.seed = &path.seed, .ipv4_identification = identification});
  return builder.finish();
}

std::size_t RcResponder::send_replay(ReplayEntry& entry, const Path& path,
                                     std::span<std::byte> frame,
                                     std::uint16_t identification) noexcept {
  const Psn psn = entry.first_psn + entry.next;
  const bool is_read = entry.kind == ReplayEntry::Kind::kRead;
  const bool is_atomic = entry.kind == ReplayEntry::Kind::kAtomic;
  Operation operation = is_atomic ? Operation::kAtomicAcknowledge : Operation::kReadResponseOnly;
  std::span<const std::byte> payload;
  if (is_read) {
    operation = read_response(entry);
    const std::uint32_t offset = entry.next * state_->path_mtu;
    const std::uint32_t octets = std::min(state_->path_mtu, entry.octets - offset);
    const Request request{.kind = RequestKind::kRead, .key = entry.rkey, .address = entry.address};
    const auto grant = ask_key(landing_.keys(), *state_, request, offset, octets);
    if (!grant) {
      fail_answer(entry, refused_by_key(grant.error()));
      return send_answer(path, frame, identification);
    }
    if (octets > 0) payload = {grant->local(), octets};
  }
  auto headers = answer_headers(*state_, path, wire::opcode_of(transport_, operation), psn);
  headers.aeth = {.syndrome = Syndrome::ack(), .msn = entry.msn};
  headers.atomic_ack_eth.original = entry.original;
  wire::PacketBuilder builder(frame, headers, payload.size(),
                              {.seed = &path.seed, .ipv4_identification = identification});
  builder.append(payload);
  if (++entry.next == entry.packets) {
    entry.pending = false;
    entry.answered = true;
    entry.start = entry.next = 0;
    --state_->replay_pending;
  }
  return builder.finish();
}

void RcResponder::drop_answers() noexcept {
  state_->answer_owed = false;
  state_->replay_pending = 0;
  const std::uint32_t count = std::min(state_->replay_count, kMaxReadAtomic);
  for (std::uint32_t age = 0; age < count; ++age) replay_at(age).pending = false;
}

}  // namespace verbatim::transport
