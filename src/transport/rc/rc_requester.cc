// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/rc_requester.h"

#include <algorithm>
#include <cstring>

#include "transport/send_side.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::transport {

using wire::Operation;
using wire::Psn;

void RcRequester::start(const Config& config, const Path& path) noexcept {
  reconfigure(config, path);
  counters_ = {};
  cursor_ = queue_->head();
  cursor_packet_ = 0;
  next_psn_ = oldest_psn_ = sent_psn_ = config.first_psn;
  reads_in_flight_ = answers_pending_ = 0;
  released_ = cursor_;
  paused_ = failed_ = waits_for_receiver_ = gap_reported_ = false;
  deadline_ = suspicion_ = Instant::never();
  times_ = false;
  window_.start(std::max(config.window_packets, 1U));
  round_trip_ = {};
}

void RcRequester::reconfigure(const Config& config, const Path& path) noexcept {
  config_ = config;
  path_ = path;
  retries_left_ = config.retry_limit;
  rnr_retries_left_ = config.rnr_retry_limit;
  window_.limit(std::max(config.window_packets, 1U));
  if (config.ack_timeout == Duration::zero()) deadline_ = suspicion_ = Instant::never();
}

bool RcRequester::is_drained() const noexcept {
  return queue_->is_empty() || queue_->at(queue_->head()).stage == SendStage::kPosted;
}

// ---- Sending ----

Psn RcRequester::cursor_psn() const noexcept {
  if (cursor_ == queue_->tail()) return next_psn_;
  const SendEntry& entry = queue_->at(cursor_);
  if (entry.stage == SendStage::kFailed) return sent_psn_;  // its other packets are never sent
  return entry.stage == SendStage::kStarted ? entry.first_psn + cursor_packet_ : next_psn_;
}

/// A request that is not started waits for the end of a pause, for a fence, and, if it is a local
/// operation, for the requests before it (10.8.3.3: an invalidate must not overtake any request).
bool RcRequester::may_start(const SendEntry& entry) const noexcept {
  if (paused_) return false;
  if (has(entry.flags, SendFlags::kFence) && answers_pending_ > 0) return false;
  if (is_local(entry.opcode)) return cursor_ == queue_->head();
  return true;
}

[[gnu::flatten]] TrainPart RcRequester::poll_train(Instant now, const TrainRoom& room) noexcept {
  if (failed_ || waits_for_receiver_ || !rate_.may_send(now)) return {};
  while (cursor_ != queue_->tail()) {
    SendEntry& entry = queue_->at(cursor_);
    if (entry.stage == SendStage::kFailed) return {};
    if (entry.stage == SendStage::kPosted) {
      if (!may_start(entry)) return {};
      if (entry.is_flawed()) {
        fail_entry(entry, entry.failure, entry.reason);
        return {};
      }
      if (is_local(entry.opcode)) {
        execute_locally(entry);
        if (failed_) return {};
        continue;
      }
    }
    if (in_flight() >= window_.packets() || waits_for_a_train(entry, room)) return {};
    const bool needs_answer = is_answered(entry.opcode);
    if (needs_answer && config_.max_read_atomic == 0) {
      fail_entry(entry, WcStatus::kLocalQpOperation, Reason::kNoReadsAllowed);
      return {};
    }
    if (needs_answer && (reads_in_flight_ >= config_.max_read_atomic || waits_for_company())) {
      return {};
    }
    if (entry.stage == SendStage::kPosted) start_entry(entry);
    const Psn before = sent_psn_;
    TrainPart part;
    if (!needs_answer) part = send_run(entry, room);
    if (part.packets == 0) {
      part = {.packets = 1, .identification = room.identification};
      part.octets = needs_answer ? send_answered(entry, room.frame, room.identification)
                                 : send_message_packet(entry, room.frame, room.identification);
    }
    if (part.octets > 0) note_sent(now, part, before);
    return part;
  }
  return {};
}

void RcRequester::start_entry(SendEntry& entry) noexcept {
  const bool spans_packets = entry.opcode == SendOpcode::kRead || !is_answered(entry.opcode);
  entry.packets = spans_packets ? packet_count(entry.octets, config_.path_mtu) : 1;
  entry.first_psn = next_psn_;
  entry.stage = SendStage::kStarted;
  next_psn_ = next_psn_ + entry.packets;
  if (is_answered(entry.opcode)) ++answers_pending_;
}

void RcRequester::execute_locally(SendEntry& entry) noexcept {
  const auto outcome =
      run_local(*queue_, entry, keys_, {.domain = config_.domain, .qp = config_.number});
  ++cursor_;
  if (outcome.status != WcStatus::kSuccess) {
    fail_entry(entry, outcome.status, outcome.reason);
    return;
  }
  entry.stage = SendStage::kDone;
  complete_done();
}

/// False when a key of the gather list does not allow it; then the entry has failed.
bool RcRequester::gather_payload(SendEntry& entry, const MessagePacket& part,
                                 wire::PacketBuilder& builder) noexcept {
  auto gathered =
      gather(*queue_, entry, part, {.table = &keys_, .domain = config_.domain}, builder);
  if (gathered) return true;
  fail_entry(entry, WcStatus::kLocalProtection, reason_of(gathered.error()));
  return false;
}

/// Whether a packet inside a message asks for an acknowledgement: often enough to keep the window
/// open, and when the window is about to close. The last packet of a message always asks.
bool RcRequester::wants_ack(std::uint32_t packet_index) const noexcept {
  return (packet_index + 1) % window_.ack_period() == 0 || in_flight() + 1 >= window_.packets();
}

std::size_t RcRequester::send_message_packet(SendEntry& entry, std::span<std::byte> frame,
                                             std::uint16_t identification) noexcept {
  const MessagePacket part =
      message_packet(entry.opcode, entry.octets, config_.path_mtu, cursor_packet_);
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(config_.transport, part.operation);
  headers.bth.solicited = part.is_last && has(entry.flags, SendFlags::kSolicited);
  headers.bth.migrated = true;
  headers.bth.pkey = path_.pkey;
  headers.bth.dest_qp = config_.dest_qp;
  headers.bth.psn = entry.first_psn + cursor_packet_;
  headers.bth.ack_request = part.is_last || wants_ack(cursor_packet_);
  headers.xrceth.srq = entry.remote_srq;
  headers.reth = {.address = entry.remote_address, .rkey = entry.rkey, .dma_octets = entry.octets};
  headers.imm_dt.immediate = entry.immediate;
  headers.ieth.rkey = entry.invalidate_key;

  wire::PacketBuilder builder(frame, headers, part.octets,
                              {.seed = &path_.seed, .ipv4_identification = identification});
  if (!gather_payload(entry, part, builder)) return 0;
  advance_cursor(1, entry);
  return builder.finish();
}

std::size_t RcRequester::send_answered(SendEntry& entry, std::span<std::byte> frame,
                                       std::uint16_t identification) noexcept {
  wire::PacketHeaders headers;
  headers.bth.migrated = true;
  headers.bth.pkey = path_.pkey;
  headers.bth.dest_qp = config_.dest_qp;
  headers.bth.psn = entry.first_psn + cursor_packet_;
  headers.bth.ack_request = true;
  headers.xrceth.srq = entry.remote_srq;
  headers.reth = {.address = entry.remote_address, .rkey = entry.rkey, .dma_octets = 0};
  std::uint32_t packets = 1;
  std::uint32_t payload_octets = 0;
  Operation operation{};
  switch (entry.opcode) {
    case SendOpcode::kRead: {
      // A READ asks from the first missing packet to the end of its piece. Pieces end at fixed
      // places, so that a repeated request ends where the responder remembers it (9.7.5.1.3).
      operation = Operation::kReadRequest;
      const std::uint32_t chunk = config_.read_chunk_packets;
      const std::uint32_t end = std::min(entry.packets, (cursor_packet_ / chunk + 1) * chunk);
      const std::uint32_t offset = cursor_packet_ * config_.path_mtu;
      packets = end - cursor_packet_;
      headers.reth.address += offset;
      headers.reth.dma_octets = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(entry.octets, std::uint64_t{end} * config_.path_mtu) - offset);
      break;
    }
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd: {
      const bool swaps = entry.opcode == SendOpcode::kCompareSwap;
      operation = swaps ? Operation::kCompareSwap : Operation::kFetchAdd;
      headers.atomic_eth = {.address = entry.remote_address,
                            .rkey = entry.rkey,
                            .swap_or_add = swaps ? entry.swap : entry.compare_or_add,
                            .compare = swaps ? entry.compare_or_add : 0};
      break;
    }
    case SendOpcode::kFlush:
      operation = Operation::kFlush;
      headers.feth = entry.flush;
      headers.reth.dma_octets = entry.flush_octets;
      break;
    case SendOpcode::kAtomicWrite:
      operation = Operation::kAtomicWrite;
      headers.reth.dma_octets = entry.octets;
      payload_octets = entry.octets;
      break;
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      VB_ASSERT(false && "not answered by data");
      break;
  }
  headers.bth.opcode = wire::opcode_of(config_.transport, operation);
  wire::PacketBuilder builder(frame, headers, payload_octets,
                              {.seed = &path_.seed, .ipv4_identification = identification});
  const MessagePacket payload{.operation = operation, .octets = payload_octets};
  if (payload_octets > 0 && !gather_payload(entry, payload, builder)) return 0;
  ++reads_in_flight_;
  advance_cursor(packets, entry);
  return builder.finish();
}

void RcRequester::advance_cursor(std::uint32_t packets, const SendEntry& entry) noexcept {
  const Psn after = entry.first_psn + cursor_packet_ + packets;
  if (sent_psn_.is_before(after)) {
    sent_psn_ = after;
  } else {
    counters_.packets_resent += is_answered(entry.opcode) ? 1 : packets;
  }
  cursor_packet_ += packets;
  if (cursor_packet_ == entry.packets) {
    ++cursor_;
    cursor_packet_ = 0;
  }
}

/// `before` is the earlier sent_psn_: the round trip is measured only of a packet that is sent for
/// the first time. Of a READ, the first response is measured; the others follow it.
void RcRequester::note_sent(Instant now, const TrainPart& part, Psn before) noexcept {
  counters_.packets_sent += part.packets;
  rate_.handle_sent(now, part.octets);
  if (!times_ && before.is_before(sent_psn_)) {
    times_ = true;
    timed_psn_ = before;
    timed_at_ = now;
  }
  if (deadline_ == Instant::never()) restart_timer(now);
}

// ---- Progress and going back ----

/// Completes every request that an acknowledgement of `psn` covers. kGap: it covers a READ or
/// atomic that has no answer, so the answer was lost (9.7.5.1.3, "implied NAK").
RcRequester::Found RcRequester::acknowledge_through(Psn psn) noexcept {
  // Distances are taken from the oldest number: the first one of a long message may be half of all
  // numbers away.
  while (!queue_->is_empty() && !failed_ && !psn.is_before(oldest_psn_)) {
    SendEntry& entry = queue_->at(queue_->head());
    if (entry.stage != SendStage::kStarted) break;
    if (is_answered(entry.opcode)) {
      const Psn missing = entry.first_psn + entry.answered;
      if (oldest_psn_.is_before(missing)) oldest_psn_ = missing;
      return psn.is_before(missing) ? Found::kAllThere : Found::kGap;
    }
    const Psn last = entry.first_psn + (entry.packets - 1);
    if (psn.is_before(last)) break;
    oldest_psn_ = last + 1;
    complete(entry);
    complete_done();
  }
  if (oldest_psn_.is_before(psn + 1)) oldest_psn_ = psn + 1;
  return Found::kAllThere;
}

/// Any answer acknowledges the packets before it. False when the answer itself cannot be used:
/// answers before it are missing, or the connection has ended.
bool RcRequester::acknowledge_before(Instant now, Psn psn) noexcept {
  if (psn == oldest_psn_) return true;
  const Psn before = oldest_psn_;
  const Found found = acknowledge_through(psn - 1);
  if (oldest_psn_ != before) note_progress(now, before);
  if (found == Found::kGap) report_gap(now);
  return found == Found::kAllThere && !failed_;
}

/// The peer has acknowledged packets: the retry counters start again, and these packets are not
/// repeated.
void RcRequester::note_progress(Instant now, Psn before) noexcept {
  if (failed_) return;
  window_.handle_progress(oldest_psn_,
                          static_cast<std::uint32_t>(oldest_psn_.distance_from(before)));
  round_trip_.handle_progress();
  take_round_trip(now);
  retries_left_ = config_.retry_limit;
  rnr_retries_left_ = config_.rnr_retry_limit;
  gap_reported_ = false;
  if (cursor_psn().is_before(oldest_psn_)) go_back_to(oldest_psn_);
  restart_timer(now);
}

/// Takes a sample if the measured packet is acknowledged.
void RcRequester::take_round_trip(Instant now) noexcept {
  if (!times_ || !timed_psn_.is_before(oldest_psn_)) return;
  times_ = false;
  round_trip_.handle_sample(now - timed_at_);
}

/// The packets in flight will be sent again, and an acknowledgement could be for either copy, so
/// the measurement is dropped. The first measurement is kept, although it may be too long: in a
/// network that loses a packet of every window there would be no other, and every loss would cost
/// the whole timeout.
void RcRequester::note_loss() noexcept {
  if (round_trip_.is_known()) times_ = false;
  window_.handle_loss(sent_psn_);
}

/// The timers run only while an answer is expected.
void RcRequester::restart_timer(Instant now) noexcept {
  const bool is_expected = oldest_psn_ != sent_psn_ && !waits_for_receiver_;
  const bool runs = is_expected && config_.ack_timeout > Duration::zero();
  deadline_ = runs ? now + config_.ack_timeout : Instant::never();
  suspicion_ = runs && round_trip_.is_known() ? now + round_trip_.suspicion() : Instant::never();
}

void RcRequester::report_gap(Instant now) noexcept {
  if (gap_reported_ || failed_) return;
  ++counters_.implied_naks;
  if (!spend_retry()) return;
  gap_reported_ = true;
  note_loss();
  go_back_to(oldest_psn_);
  restart_timer(now);
}

/// The next packet to send is `psn`, which lies in a request that was started, or is next_psn_.
void RcRequester::go_back_to(Psn psn) noexcept {
  std::uint32_t number = queue_->head();
  for (; number != queue_->tail(); ++number) {
    const SendEntry& entry = queue_->at(number);
    if (entry.stage == SendStage::kPosted || entry.stage == SendStage::kFailed) break;
    if (psn.is_before(entry.first_psn + entry.packets)) break;
  }
  cursor_ = number;
  const bool inside = number != queue_->tail() && queue_->at(number).stage == SendStage::kStarted;
  cursor_packet_ =
      inside ? static_cast<std::uint32_t>(psn.distance_from(queue_->at(number).first_psn)) : 0;
  reads_in_flight_ = 0;
}

/// False when no retry is left; then the connection has ended.
bool RcRequester::spend_retry() noexcept {
  if (retries_left_ == 0) {
    fail_head(WcStatus::kRetryExceeded, Reason::kNoAnswer);
    return false;
  }
  --retries_left_;
  return true;
}

void RcRequester::handle_timeout(Instant now) noexcept {
  if (failed_) return;
  if (waits_for_receiver_ && now >= rnr_until_) waits_for_receiver_ = false;
  if (now < std::min(deadline_, suspicion_)) return;
  const bool is_verdict = now >= deadline_;
  suspicion_ = Instant::never();
  if (is_verdict) deadline_ = Instant::never();
  if (oldest_psn_ == sent_psn_) return;
  ++(is_verdict ? counters_.timeouts : counters_.suspicions);
  gap_reported_ = false;
  if (is_verdict && !spend_retry()) return;
  note_loss();
  go_back_to(oldest_psn_);
  if (is_verdict) return restart_timer(now);
  round_trip_.handle_suspicion();
  suspicion_ = now + round_trip_.suspicion();
}

Instant RcRequester::next_timeout() const noexcept {
  if (failed_) return Instant::never();
  Instant next = std::min(deadline_, suspicion_);
  if (waits_for_receiver_) next = std::min(next, rnr_until_);
  return next;
}

// ---- Ending requests ----

void RcRequester::complete(SendEntry& entry) noexcept {
  if (is_answered(entry.opcode)) --answers_pending_;
  entry.stage = SendStage::kDone;
}

/// Completes the requests that are done, in the order of posting, and a failed one in its turn.
void RcRequester::complete_done() noexcept {
  while (!queue_->is_empty()) {
    SendEntry& entry = queue_->at(queue_->head());
    if (entry.stage == SendStage::kFailed) {
      fail_head(entry.failure, entry.reason);
      return;
    }
    if (entry.stage != SendStage::kDone) return;
    ++counters_.messages;
    counters_.octets += entry.octets;
    if (has(entry.flags, SendFlags::kSignaled)) {
      publish(entry, WcStatus::kSuccess, Reason::kNone);
    }
    if (cursor_ == queue_->head()) {
      ++cursor_;
      cursor_packet_ = 0;
    }
    queue_->remove_head();
  }
}

/// The entry has failed. It completes when all entries before it are done, so that order holds.
void RcRequester::fail_entry(SendEntry& entry, WcStatus status, Reason reason) noexcept {
  entry.stage = SendStage::kFailed;
  entry.failure = status;
  entry.reason = reason;
  complete_done();
}

void RcRequester::fail_head(WcStatus status, Reason reason) noexcept {
  failed_ = true;
  deadline_ = suspicion_ = Instant::never();
  waits_for_receiver_ = false;
  if (queue_->is_empty()) return;
  publish(queue_->at(queue_->head()), status, reason);
  queue_->remove_head();
}

void RcRequester::handle_fault_while_sending() noexcept {
  if (failed_ || cursor_ == queue_->tail()) return;
  fail_entry(queue_->at(cursor_), WcStatus::kLocalProtection, Reason::kMemoryGone);
}

void RcRequester::handle_fault_while_placing() noexcept {
  if (failed_) return;
  fail_head(WcStatus::kLocalProtection, Reason::kMemoryGone);
}

void RcRequester::flush() noexcept {
  while (!queue_->is_empty()) {
    const SendEntry& entry = queue_->at(queue_->head());
    const bool was_done = entry.stage == SendStage::kDone;
    if (!was_done) publish(entry, WcStatus::kFlushed, Reason::kNone);
    if (was_done && has(entry.flags, SendFlags::kSignaled)) {
      publish(entry, WcStatus::kSuccess, Reason::kNone);
    }
    queue_->remove_head();
  }
  cursor_ = queue_->head();
  cursor_packet_ = 0;
  oldest_psn_ = sent_psn_ = next_psn_;  // nothing is outstanding
  deadline_ = suspicion_ = Instant::never();
  waits_for_receiver_ = false;
}

void RcRequester::publish(const SendEntry& entry, WcStatus status, Reason reason) noexcept {
  // The lane had a place when the request was accepted.
  const bool placed = port_.publish(completion_of(entry, status, reason, config_.number));
  VB_ASSERT(placed);
}

}  // namespace verbatim::transport
