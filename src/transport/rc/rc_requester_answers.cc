// SPDX-License-Identifier: Apache-2.0
// How a requester handles acknowledgements, refusals and data; sending is in rc_requester.cc.
#include <algorithm>
#include <cstring>

#include "transport/rc/rc_requester.h"
#include "transport/rules/verdict.h"
#include "transport/send_side.h"

namespace verbatim::transport {

using wire::Operation;
using wire::Psn;

namespace {

/// False for an undefined syndrome and for data that comes with a NAK: both are ignored (9.7.5.2).
bool means_something(const wire::PacketView& packet) noexcept {
  if (!packet.info().has(wire::OpcodeInfo::kAeth)) return true;
  const wire::Syndrome syndrome = packet.aeth().syndrome;
  switch (syndrome.kind()) {
    case wire::Syndrome::Kind::kAck:
      return true;
    case wire::Syndrome::Kind::kRnrNak:
      return packet.operation() == Operation::kAcknowledge;
    case wire::Syndrome::Kind::kNak:
      return packet.operation() == Operation::kAcknowledge && syndrome.is_defined_nak();
    case wire::Syndrome::Kind::kReserved:
      return false;
  }
  return false;
}

}  // namespace

bool RcRequester::is_outstanding(Psn psn) const noexcept {
  return !psn.is_before(oldest_psn_) && psn.is_before(sent_psn_);
}

[[gnu::flatten]] void RcRequester::handle_response(Instant now,
                                                   const wire::PacketView& packet) noexcept {
  if (failed_) return;
  const Psn psn = packet.psn();
  if (!is_outstanding(psn)) {
    ++counters_.ghosts;
    return;
  }
  if (!means_something(packet)) {
    ++counters_.reserved_answers;
    return;
  }
  switch (packet.operation()) {
    case Operation::kAcknowledge:
      handle_acknowledge(now, psn, packet.aeth());
      return;
    case Operation::kAtomicAcknowledge:
      handle_atomic_response(now, packet);
      return;
    case Operation::kReadResponseFirst:
    case Operation::kReadResponseMiddle:
    case Operation::kReadResponseLast:
    case Operation::kReadResponseOnly:
      handle_read_response(now, packet);
      return;
    default:
      return;  // the queue pair passes no requests here
  }
}

void RcRequester::handle_acknowledge(Instant now, Psn psn, wire::Aeth aeth) noexcept {
  switch (aeth.syndrome.kind()) {
    case wire::Syndrome::Kind::kAck: {
      const Psn before = oldest_psn_;
      const Found found = acknowledge_through(psn);
      if (oldest_psn_ != before) note_progress(now, before);
      if (found == Found::kGap) report_gap(now);
      return;
    }
    case wire::Syndrome::Kind::kRnrNak:
      handle_rnr_nak(now, psn, aeth.syndrome.code());
      return;
    case wire::Syndrome::Kind::kNak:
      if (wire::Syndrome::Nak(aeth.syndrome.code()) == wire::Syndrome::Nak::kSequence) {
        handle_sequence_nak(now, psn);
      } else {
        handle_fatal_nak(now, psn, wire::Syndrome::Nak(aeth.syndrome.code()));
      }
      return;
    case wire::Syndrome::Kind::kReserved:
      return;
  }
}

void RcRequester::handle_rnr_nak(Instant now, Psn psn, std::uint8_t timer_code) noexcept {
  ++counters_.rnr_naks;
  if (!acknowledge_before(now, psn)) return;
  if (waits_for_receiver_ && cursor_psn() == psn) return;  // a copy of the same NAK
  if (config_.rnr_retry_limit != kForever) {
    if (rnr_retries_left_ == 0) {
      fail_head(WcStatus::kRnrRetryExceeded, Reason::kReceiverNotReady);
      return;
    }
    --rnr_retries_left_;
  }
  go_back_to(psn);
  waits_for_receiver_ = true;
  rnr_until_ = now + wire::rnr_delay(timer_code);
  deadline_ = suspicion_ = Instant::never();
  times_ = false;
}

void RcRequester::handle_sequence_nak(Instant now, Psn psn) noexcept {
  ++counters_.sequence_naks;
  if (!acknowledge_before(now, psn)) return;
  // A receiver that was not ready has also seen the packets behind; the RNR timer takes precedence.
  if (waits_for_receiver_) return;
  if (cursor_psn() == psn) return;  // the cursor is there already, nothing was sent since
  if (!spend_retry()) return;
  note_loss();
  go_back_to(psn);
  restart_timer(now);
}

void RcRequester::handle_fatal_nak(Instant now, Psn psn, wire::Syndrome::Nak code) noexcept {
  if (!acknowledge_before(now, psn)) return;
  if (const auto status = requester_status(code)) fail_head(*status, Reason::kRemoteNak);
}

/// The request that an answer with this PSN belongs to: the oldest one, if this is the packet that
/// it expects. Null when answers before it are missing or the connection has ended.
SendEntry* RcRequester::answered_entry(Instant now, Psn psn) noexcept {
  if (!acknowledge_before(now, psn) || queue_->is_empty()) return nullptr;
  SendEntry& entry = queue_->at(queue_->head());
  if (entry.stage != SendStage::kStarted || psn != oldest_psn_) return nullptr;
  return &entry;
}

void RcRequester::handle_read_response(Instant now, const wire::PacketView& packet) noexcept {
  const Psn psn = packet.psn();
  SendEntry* entry = answered_entry(now, psn);
  if (entry == nullptr) return;
  const bool is_empty_answer =
      entry->opcode == SendOpcode::kFlush || entry->opcode == SendOpcode::kAtomicWrite;
  if (is_empty_answer && packet.operation() == Operation::kReadResponseOnly) {
    if (packet.payload().empty()) {
      finish_answer(now, *entry, psn);
    } else {
      fail_head(WcStatus::kBadResponse, Reason::kBadResponseLength);
    }
    return;
  }
  if (entry->opcode != SendOpcode::kRead) {
    fail_head(WcStatus::kBadResponse, Reason::kUnexpectedResponse);
    return;
  }
  const std::uint32_t index = entry->answered;
  const bool ends_piece =
      index + 1 == entry->packets || (index + 1) % config_.read_chunk_packets == 0;
  // The answer to a repeated READ may begin in the middle with First or with Middle: responders
  // do both.
  const bool says_end = packet.info().ends_message;
  if (says_end != ends_piece) {
    fail_head(WcStatus::kBadResponse, Reason::kUnexpectedResponse);
    return;
  }
  const std::uint32_t offset = index * config_.path_mtu;
  const std::uint32_t due = std::min(config_.path_mtu, entry->octets - offset);
  if (packet.payload().size() != due) {
    fail_head(WcStatus::kLocalLength, Reason::kBadResponseLength);
    return;
  }
  if (!place(*entry, offset, packet.payload())) return;
  if (ends_piece && reads_in_flight_ > 0) --reads_in_flight_;
  finish_answer(now, *entry, psn);
}

void RcRequester::handle_atomic_response(Instant now, const wire::PacketView& packet) noexcept {
  SendEntry* entry = answered_entry(now, packet.psn());
  if (entry == nullptr) return;
  if (entry->opcode != SendOpcode::kCompareSwap && entry->opcode != SendOpcode::kFetchAdd) {
    fail_head(WcStatus::kBadResponse, Reason::kUnexpectedResponse);
    return;
  }
  const std::uint64_t original = packet.atomic_ack_eth().original;  // host order in memory (9.4.5)
  std::byte octets[sizeof original];
  std::memcpy(octets, &original, sizeof original);
  if (!place(*entry, 0, octets)) return;
  finish_answer(now, *entry, packet.psn());
}

/// False when a key of the scatter list does not allow it; then the connection has ended.
bool RcRequester::place(SendEntry& entry, std::uint32_t offset,
                        std::span<const std::byte> data) noexcept {
  const auto list = queue_->list_of(entry);
  if (entry.walk_at != offset) entry.walk = memory::cursor_at(list, offset);
  const memory::LocalAccess access{
      .table = &keys_, .domain = config_.domain, .need = memory::Access::kLocalWrite};
  const std::byte* from = data.data();
  auto walked =
      memory::walk(list, entry.walk, data.size(), access, [&](std::span<std::byte> piece) {
        std::memcpy(piece.data(), from, piece.size());
        from += piece.size();
      });
  entry.walk_at = offset + static_cast<std::uint32_t>(data.size());
  if (walked) return true;
  fail_head(WcStatus::kLocalProtection, reason_of(walked.error()));
  return false;
}

/// One packet of an answer is placed.
void RcRequester::finish_answer(Instant now, SendEntry& entry, Psn psn) noexcept {
  ++entry.answered;
  oldest_psn_ = psn + 1;
  if (entry.opcode != SendOpcode::kRead && reads_in_flight_ > 0) --reads_in_flight_;
  if (entry.answered == entry.packets) {
    complete(entry);
    complete_done();
  }
  note_progress(now, psn);
}

}  // namespace verbatim::transport
