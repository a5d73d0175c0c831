// SPDX-License-Identifier: Apache-2.0
#include "direct/requester.h"

#include <algorithm>
#include <cstring>

#include "base/pointer.h"
#include "transport/rules/verdict.h"
#include "transport/segmentation.h"
#include "transport/send_side.h"

namespace verbatim::direct {

using transport::Reason;
using transport::reason_of;
using transport::SendEntry;
using transport::SendOpcode;
using transport::SendStage;
using transport::stamp_of;
using transport::WcStatus;

namespace {

// A request counts at least as this many octets of a turn.
constexpr std::uint32_t kTurnOctetsMin = 64;
// Not every change at the other end rings a bell. So a waiting requester also tries again by
// itself, in pauses that grow from the first of these to one of the others.
constexpr Duration kFirstLook = std::chrono::microseconds(250);
constexpr Duration kReceiveLooksMax = std::chrono::milliseconds(4);
constexpr Duration kAnswerLooksMax = std::chrono::milliseconds(64);
// When the peer process has ended, a request fails this much later. Otherwise it could fail before
// its program has polled what the peer had sent. Programs that end with the last message they wait
// for, although other requests are posted, rely on the time that an adapter's retries take.
constexpr Duration kPeerGoneDelay = std::chrono::milliseconds(20);
constexpr std::uint8_t kForever = 7;  // an RNR retry count of seven means no limit (9.7.5.2.8)

/// The status of a request that was refused.
WcStatus failure_of(Answer refusal) noexcept {
  const auto nak = nak_of(refusal);
  const auto status = nak ? transport::requester_status(*nak) : std::nullopt;
  return status.value_or(WcStatus::kRemoteOperation);
}

}  // namespace

void Requester::start(const Config& config, wire::Psn first_psn) noexcept {
  config_ = config;
  target_.visit().set_send_psn(first_psn.raw());
  next_psn_ = first_psn;
  paused_ = failed_ = is_inside_ = accesses_own_ = has_met_ = false;
  on_errand_ = OnErrand::kNo;
  wait_ = {};
  *config_.traffic = {};
}

void Requester::reconfigure(const Config& config) noexcept { config_ = config; }

Requester::Stop Requester::run() noexcept {
  if (failed_) return Stop::kFailed;
  std::uint32_t turn = 0;
  while (!failed_ && !queue_->is_empty()) {
    SendEntry& entry = queue_->at(queue_->head());
    if (paused_ && entry.stage == SendStage::kPosted) return Stop::kIdle;
    if (!has_met_) [[unlikely]] {
      const auto meeting = target_.meet();
      if (meeting == Target::Meeting::kMismatch) return Stop::kMismatch;
      has_met_ = meeting == Target::Meeting::kMet;
    }
    if (turn >= kTurnOctets) return Stop::kMore;
    turn += std::max(std::min(entry.octets - entry.answered, kChunkOctets), kTurnOctetsMin);
    switch (execute(entry)) {
      case Step::kDone:
        if (wait_.what != Wait::For::kNothing) [[unlikely]]
          stop_waiting();
        complete(entry);
        break;
      case Step::kPart:
        if (wait_.what != Wait::For::kNothing) [[unlikely]]
          stop_waiting();
        break;
      case Step::kNotReady:
        return wait_for_receive();
      case Step::kSilence:
        return wait_for_answer();
      case Step::kFailed:
        return Stop::kFailed;
    }
  }
  return failed_ ? Stop::kFailed : Stop::kIdle;
}

Requester::Step Requester::execute(SendEntry& entry) noexcept {
  if (entry.is_flawed()) [[unlikely]]
    return fail(entry, entry.failure, entry.reason);
  if (transport::is_local(entry.opcode)) return execute_locally(entry);
  if (!has_met_) return unanswered();
  if (entry.stage == SendStage::kPosted) begin(entry);
  if (transport::is_answered(entry.opcode) && config_.max_read_atomic == 0) {
    return fail(entry, WcStatus::kLocalQpOperation, Reason::kNoReadsAllowed);
  }
  if (on_errand_ != OnErrand::kNo) [[unlikely]]
    return look_for_reply(entry);
  is_inside_ = true;
  const std::uint32_t answered_before = entry.answered;
  Step step = unanswered();
  if (target_.visit().enter()) [[likely]] {
    step = execute_inside(entry);
    if (target_.visit().is_given_up()) [[unlikely]]
      step = finish_late(entry, step, answered_before);
    if (step == Step::kDone) target_.advance(entry.packets);
  }
  is_inside_ = false;
  target_.visit().leave();
  return step;
}

/// The owner of the half has given this visit up, because this thread was stopped or had no
/// processor, and has taken something away. That need not be what the request uses. A part of the
/// request that does not count is executed again: if its key has become invalid, the check of the
/// key refuses it then.
Requester::Step Requester::finish_late(SendEntry& entry, Step step,
                                       std::uint32_t answered_before) noexcept {
  if (step == Step::kFailed) return step;  // its error completion is published
  if (target_.visit().is_locked_out()) return unanswered();
  // A receive completes only in a visit that was not given up (Target::finish_receive()).
  const bool has_completed_receive = step == Step::kDone && entry.opcode == SendOpcode::kWriteImm;
  if (has_completed_receive || target_.counts_late(entry)) return step;
  const bool is_atomic =
      entry.opcode == SendOpcode::kCompareSwap || entry.opcode == SendOpcode::kFetchAdd;
  if (is_atomic && step == Step::kDone) return step_of(entry, target_.refuse_late());
  entry.answered = answered_before;
  if (!entry.is_inline) entry.walk = memory::cursor_at(queue_->list_of(entry), answered_before);
  return Step::kPart;
}

void Requester::begin(SendEntry& entry) noexcept {
  const bool spans_packets =
      entry.opcode == SendOpcode::kRead || !transport::is_answered(entry.opcode);
  entry.packets = spans_packets ? transport::packet_count(entry.octets, config_.path_mtu) : 1;
  entry.first_psn = next_psn_;
  entry.answered = 0;  // octets that have been moved
  entry.walk = {};
  entry.stage = SendStage::kStarted;
  next_psn_ = next_psn_ + entry.packets;
}

Requester::Step Requester::execute_inside(SendEntry& entry) noexcept {
  switch (entry.opcode) {
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kRead:
      return move(entry);
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
      return execute_atomic(entry);
    case SendOpcode::kAtomicWrite:
      return execute_atomic_write(entry);
    case SendOpcode::kFlush:
      return step_of(entry, target_.flush(entry));
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      break;
  }
  return Step::kDone;
}

Requester::Step Requester::execute_locally(SendEntry& entry) noexcept {
  const auto outcome =
      transport::run_local(*queue_, entry, keys_, {.domain = config_.domain, .qp = config_.number});
  if (outcome.status == WcStatus::kSuccess) return Step::kDone;
  return fail(entry, outcome.status, outcome.reason);
}

/// One chunk of a SEND, WRITE or READ.
Requester::Step Requester::move(SendEntry& entry) noexcept {
  const bool reads = entry.opcode == SendOpcode::kRead;
  const std::uint32_t octets = std::min(entry.octets - entry.answered, kChunkOctets);
  Chunk chunk{.offset = entry.answered,
              .octets = octets,
              .is_first = entry.answered == 0,
              .is_last = entry.answered + octets == entry.octets};
  if (reads && chunk.is_first) {
    const Answer begun = target_.begin_read(entry);
    if (begun != Answer::kDone) return step_of(entry, begun);
  }
  const memory::SgeCursor before = entry.walk;
  if (!gather(entry, octets, reads ? memory::Access::kLocalWrite : memory::Access::kNone)) {
    return Step::kFailed;
  }
  chunk.pieces = {pieces_.data(), piece_count_};
  Answer answer;
  if (reads) {
    answer = target_.read(entry, chunk);
  } else if (entry.opcode == SendOpcode::kWrite || entry.opcode == SendOpcode::kWriteImm) {
    answer = target_.write(entry, chunk);
  } else {
    answer = target_.send(entry, chunk);
  }
  if (answer != Answer::kDone) {
    entry.walk = before;
    return step_of(entry, answer);
  }
  entry.answered += octets;
  return chunk.is_last ? Step::kDone : Step::kPart;
}

/// Finds the next octets of the entry's list in memory of this process. False when a key does not
/// allow it; then the entry has failed.
bool Requester::gather(SendEntry& entry, std::uint32_t octets, memory::Access need) noexcept {
  piece_count_ = 0;
  if (entry.is_inline) {
    const auto data = queue_->inline_data_of(entry);
    if (octets > 0) {
      pieces_[piece_count_++] = {.iov_base = const_cast<std::byte*>(data.data()) + entry.answered,
                                 .iov_len = octets};
    }
    return true;
  }
  const memory::LocalAccess access{.table = &keys_, .domain = config_.domain, .need = need};
  const auto walked = memory::walk(
      queue_->list_of(entry), entry.walk, octets, access, [&](std::span<std::byte> piece) {
        pieces_[piece_count_++] = {.iov_base = piece.data(), .iov_len = piece.size()};
      });
  if (walked) return true;
  (void)fail(entry, WcStatus::kLocalProtection, reason_of(walked.error()));
  return false;
}

Requester::Step Requester::execute_atomic(SendEntry& entry) noexcept {
  std::uint64_t original = 0;
  if (const Answer answer = target_.atomic(entry, original); answer != Answer::kDone) {
    return step_of(entry, answer);
  }
  return place(std::as_bytes(std::span(&original, 1)), entry) ? Step::kDone : Step::kFailed;
}

Requester::Step Requester::execute_atomic_write(SendEntry& entry) noexcept {
  std::uint64_t value = 0;
  if (!gather(entry, std::min<std::uint32_t>(entry.octets, sizeof value), memory::Access::kNone)) {
    return Step::kFailed;
  }
  auto* to = pointer_as<std::byte>(&value);
  for (std::uint32_t i = 0; i < piece_count_; ++i) {
    std::memcpy(to, pieces_[i].iov_base, pieces_[i].iov_len);
    to += pieces_[i].iov_len;
  }
  entry.walk = {};
  return step_of(entry, target_.atomic_write(entry, value));
}

Requester::Step Requester::step_of(SendEntry& entry, Answer answer) noexcept {
  switch (answer) {
    case Answer::kDone:
    case Answer::kLost:
      return Step::kDone;
    case Answer::kNotReady:
      return Step::kNotReady;
    case Answer::kSilence:
      return Step::kSilence;
    case Answer::kOwnerNeeded:
      on_errand_ = OnErrand::kToSend;
      return Step::kPart;
    case Answer::kInvalidRequest:
    case Answer::kAccessRefused:
    case Answer::kOperationError:
      return fail(entry, failure_of(answer), Reason::kRemoteNak);
  }
  return Step::kFailed;
}

// ---- Errands ----

Requester::Step Requester::look_for_reply(SendEntry& entry) noexcept {
  switch (on_errand_) {
    case OnErrand::kNo:
    case OnErrand::kToSend:
      return send_errand(entry);
    case OnErrand::kSent:
      return Step::kSilence;
    case OnErrand::kReplied:
      on_errand_ = OnErrand::kNo;
      return finish_errand(entry);
  }
  return Step::kSilence;
}

Requester::Step Requester::send_errand(SendEntry& entry) noexcept {
  const bool moves = !transport::is_answered(entry.opcode) || entry.opcode == SendOpcode::kRead;
  const std::uint32_t octets =
      moves ? std::min(entry.octets - entry.answered, Errand::kOctetsMax) : entry.octets;
  errand_ = {.number = errand_.number + 1,
             .requester = config_.number,
             .target = target_.visit().number(),
             .entry = entry,
             .offset = moves ? entry.answered : 0,
             .octets = octets,
             .is_first = entry.answered == 0,
             .is_last = !moves || entry.answered + octets == entry.octets};
  errand_octets_.clear();
  const bool brings_octets = moves && entry.opcode != SendOpcode::kRead;
  if (brings_octets || entry.opcode == SendOpcode::kAtomicWrite) {
    errand_octets_.reserve(octets);
    if (!in_own_memory([&] { return pack_octets(entry, octets); })) return Step::kFailed;
  }
  if (entry.opcode == SendOpcode::kAtomicWrite) {
    std::memcpy(&errand_.original, errand_octets_.data(),
                std::min(errand_octets_.size(), sizeof errand_.original));
    errand_octets_.clear();
  }
  if (!target_.visit().send(std::as_bytes(std::span(&errand_, 1)), errand_octets_))
    return Step::kSilence;  // the next run() tries again
  ++config_.traffic->errands;
  on_errand_ = OnErrand::kSent;
  return Step::kSilence;
}

/// Appends the next octets of the entry's list to those of the errand; finish_errand() goes on in
/// the list.
bool Requester::pack_octets(SendEntry& entry, std::uint32_t octets) noexcept {
  const memory::SgeCursor before = entry.walk;
  if (!gather(entry, octets, memory::Access::kNone)) return false;
  entry.walk = before;
  for (std::uint32_t i = 0; i < piece_count_; ++i) {
    const auto* from = static_cast<const std::byte*>(pieces_[i].iov_base);
    errand_octets_.insert(errand_octets_.end(), from, from + pieces_[i].iov_len);
  }
  return true;
}

/// Errands come and go without a visit, but the memory of this process may be taken away then, too.
template <typename Access>
bool Requester::in_own_memory(Access&& access) noexcept {
  accesses_own_ = true;
  target_.visit().begin_own_access();
  const bool succeeded = access();
  target_.visit().end_own_access();
  accesses_own_ = false;
  return succeeded;
}

void Requester::handle_reply(const Errand& reply, std::span<const std::byte> octets) {
  if (on_errand_ != OnErrand::kSent || reply.number != errand_.number)
    return;  // a reply to an earlier errand
  errand_.adopt(reply, octets.size());
  errand_octets_.assign(octets.begin(), octets.end());
  on_errand_ = OnErrand::kReplied;
}

Requester::Step Requester::finish_errand(SendEntry& entry) noexcept {
  if (errand_.answer == Answer::kOwnerNeeded) errand_.answer = Answer::kOperationError;
  if (errand_.answer != Answer::kDone) return step_of(entry, errand_.answer);
  if (entry.opcode == SendOpcode::kCompareSwap || entry.opcode == SendOpcode::kFetchAdd) {
    const auto original = std::as_bytes(std::span(&errand_.original, 1));
    if (!in_own_memory([&] { return place(original, entry); })) return Step::kFailed;
  } else if (entry.opcode == SendOpcode::kRead) {
    if (!in_own_memory([&] { return place(errand_octets_, entry); })) return Step::kFailed;
  } else if (!entry.is_inline && entry.opcode != SendOpcode::kAtomicWrite) {
    entry.walk = memory::cursor_at(queue_->list_of(entry), entry.answered + errand_.octets);
  }
  entry.answered += errand_.octets;
  if (!errand_.is_last) return Step::kPart;
  if (target_.visit().enter()) target_.advance(entry.packets);
  target_.visit().leave();
  return Step::kDone;
}

/// Stores octets at the present position of the entry's list.
bool Requester::place(std::span<const std::byte> octets, SendEntry& entry) noexcept {
  if (!gather(entry, static_cast<std::uint32_t>(octets.size()), memory::Access::kLocalWrite)) {
    return false;
  }
  const std::byte* from = octets.data();
  for (std::uint32_t i = 0; i < piece_count_; ++i) {
    std::memcpy(pieces_[i].iov_base, from, pieces_[i].iov_len);
    from += pieces_[i].iov_len;
  }
  return true;
}

void Requester::publish(const SendEntry& entry, WcStatus status, Reason reason) noexcept {
  auto completion = transport::completion_of(entry, status, reason, config_.number);
  if (port_.keeps_time()) [[unlikely]]
    completion.timestamp = stamp_of(clock_());
  if (!port_.publish(completion)) [[unlikely]]
    lose_completion();
}

/// The lane had a place when the request was accepted. If it has none now, another process has
/// written into this segment.
void Requester::lose_completion() noexcept { failed_ = true; }

void Requester::complete(const SendEntry& entry) noexcept {
  count(entry);
  if (has(entry.flags, transport::SendFlags::kSignaled)) publish(entry, WcStatus::kSuccess);
  queue_->remove_head();
}

Requester::Step Requester::fail(SendEntry& entry, WcStatus status, Reason reason) noexcept {
  failed_ = true;
  stop_waiting();
  publish(entry, status, reason);
  queue_->remove_head();
  return Step::kFailed;
}

void Requester::handle_memory_fault(const void* at) noexcept {
  const Answer answer = is_inside_ ? target_.handle_fault(at) : Answer::kDone;
  if (is_inside_) target_.visit().leave();
  if (accesses_own_) target_.visit().end_own_access();
  is_inside_ = accesses_own_ = false;
  if (failed_ || queue_->is_empty()) return;
  SendEntry& entry = queue_->at(queue_->head());
  if (answer == Answer::kDone) {
    (void)fail(entry, WcStatus::kLocalProtection, Reason::kMemoryGone);
  } else if (step_of(entry, answer) == Step::kDone) {
    complete(entry);  // unreliable: the request is lost
  }
}

// ---- Waiting ----

void Requester::stop_waiting() noexcept {
  if (wait_.what == Wait::For::kReceive) target_.visit().end_waiting();
  wait_ = {};
}

void Requester::look_again(Instant now, Duration pause_max) noexcept {
  if (now < wait_.look && wait_.look != Instant::never()) return;
  wait_.pause = std::clamp(wait_.pause * 2, kFirstLook, pause_max);
  wait_.look = now + wait_.pause;
}

Requester::Stop Requester::wait_for_receive() noexcept {
  const Instant now = clock_();
  const bool is_new = wait_.what != Wait::For::kReceive;
  // Posting to a shared receive queue does not wake requesters that wait.
  if (!is_new && target_.shares_receives()) look_again(now, kReceiveLooksMax);
  if (!is_new && now < wait_.until) return Stop::kWaiting;  // woken early, without a receive
  ++config_.traffic->not_ready;
  if (is_new) {
    wait_ = {.what = Wait::For::kReceive, .tries_left = config_.rnr_retry_limit};
    if (target_.begin_waiting()) return Stop::kMore;  // a receive was posted meanwhile
  }
  if (wait_.tries_left == 0) {
    (void)fail(queue_->at(queue_->head()), WcStatus::kRnrRetryExceeded, Reason::kReceiverNotReady);
    return Stop::kFailed;
  }
  if (wait_.tries_left != kForever) --wait_.tries_left;
  wait_.until = now + target_.receiver_delay();
  if (target_.shares_receives()) look_again(now, kReceiveLooksMax);
  return Stop::kWaiting;
}

/// The half does not take the request. The requester waits and retries as it would without an
/// acknowledgement on the wire; the end of the peer process shortens the wait.
Requester::Stop Requester::wait_for_answer() noexcept {
  const Instant now = clock_();
  if (wait_.what != Wait::For::kAnswer) {
    stop_waiting();
    wait_ = {.what = Wait::For::kAnswer, .tries_left = config_.retry_limit};
    if (config_.ack_timeout > Duration::zero()) wait_.until = now + config_.ack_timeout;
  }
  if (target_.visit().has_gone() && !wait_.peer_has_gone) {
    wait_.peer_has_gone = true;
    wait_.tries_left = 0;
    wait_.until = std::min(wait_.until, now + kPeerGoneDelay);
  }
  const bool is_over = now >= wait_.until;
  if (is_over && wait_.tries_left == 0) {
    (void)fail(queue_->at(queue_->head()), WcStatus::kRetryExceeded, Reason::kNoAnswer);
    return Stop::kFailed;
  }
  if (is_over) {
    ++config_.traffic->repeats;
    --wait_.tries_left;
    wait_.until = now + config_.ack_timeout;
  }
  look_again(now, kAnswerLooksMax);
  return Stop::kWaiting;
}

}  // namespace verbatim::direct
