// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "memory/key_table.h"
#include "transport/path.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/send_queue.h"
#include "transport/rc/rate_policy.h"
#include "transport/rc/round_trip.h"
#include "transport/rc/send_window.h"
#include "transport/rc/train.h"
#include "transport/reason.h"
#include "transport/segmentation.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"
#include "wire/headers/packet_run.h"
#include "wire/headers/psn.h"

namespace verbatim::transport {

/// The sending side of a reliable connection (IBA Vol 1, 9.7.3 to 9.7.6): divides requests into
/// packets, keeps the requests until they are acknowledged, places the data of READs and atomics,
/// and goes back to the oldest missing packet after a NAK or a timeout. XRC initiators are the same
/// with one header more.
///
/// It performs no I/O, reads no clock, allocates nothing and starts no thread. Its owner
///   1. posts into the SendQueue and reports events (handle_*), in non-decreasing time;
///   2. then drains poll_transmit() until it returns 0;
///   3. then sleeps no longer than next_timeout().
/// Completions appear at the port. When has_failed(), the connection is over: the failed request
/// has been completed, and the owner moves the queue pair to ERR and flushes the rest. Thread: the
/// one that holds the queue pair's lock. Spurious calls are harmless.
class RcRequester {
 public:
  struct Config {
    wire::QpNumber number{};  // of this queue pair, for completions
    wire::QpNumber dest_qp{};
    wire::Transport transport = wire::Transport::kRc;  // or kXrc
    memory::DomainId domain = memory::DomainId::kNone;
    wire::Psn first_psn{};
    std::uint32_t path_mtu = 1024;           // payload octets in one packet
    std::uint32_t window_packets = 128;      // sequence numbers in flight at which sending stops,
                                             // while nothing is lost
    std::uint32_t read_chunk_packets = 128;  // a longer READ is sent as several READ requests
    std::uint8_t retry_limit = 7;            // unanswered tries in a row after the first
    std::uint8_t rnr_retry_limit = 7;        // 7: no limit
    std::uint8_t max_read_atomic = 1;        // READ pieces and atomics in flight
    Duration ack_timeout{0};                 // 0: never
  };
  /// An RNR retry count of seven means no limit (9.7.5.2.8).
  static constexpr std::uint8_t kForever = 7;

  struct Counters {
    std::uint64_t messages = 0;  // done
    std::uint64_t octets = 0;    // of these
    std::uint64_t packets_sent = 0;
    std::uint64_t packets_resent = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t suspicions = 0;  // repeats before the timeout
    std::uint64_t sequence_naks = 0;
    std::uint64_t implied_naks = 0;
    std::uint64_t rnr_naks = 0;
    std::uint64_t ghosts = 0;            // responses whose PSN is not outstanding
    std::uint64_t reserved_answers = 0;  // responses with a reserved syndrome
  };

  RcRequester() noexcept = default;
  RcRequester(SendQueue* queue, CompletionPort port, memory::KeyTable keys) noexcept
      : queue_(queue), port_(port), keys_(keys) {}

  /// Begins (at RTS) with an empty history; requests that were posted before stay posted.
  void start(const Config& config, const Path& path) noexcept;
  /// New attributes of a connection that goes on: timers, retries, rights.
  void reconfigure(const Config& config, const Path& path) noexcept;
  void use_pkey(wire::PKey pkey) noexcept { path_.pkey = pkey; }

  /// While paused (SQD), no request is started; started ones finish.
  void pause(bool paused) noexcept { paused_ = paused; }
  [[nodiscard]] bool is_drained() const noexcept;
  /// Whether a posted request has packets that are not sent, or are to be sent again.
  [[nodiscard]] bool has_unsent() const noexcept { return cursor_ != queue_->tail(); }

  void handle_response(Instant now, const wire::PacketView& packet) noexcept;
  void handle_congestion_notification(Instant now) noexcept {
    rate_.handle_congestion_notification(now);
  }
  void handle_timeout(Instant now) noexcept;

  /// Writes the next packet, or several of one message with equal lengths; none when there is
  /// nothing to send now.
  [[nodiscard]] TrainPart poll_train(Instant now, const TrainRoom& room) noexcept;
  /// The next packet alone; 0 when there is none to send now.
  [[nodiscard]] std::size_t poll_transmit(Instant now, std::span<std::byte> frame,
                                          std::uint16_t ipv4_identification) noexcept {
    return poll_train(now, {.frame = frame, .identification = ipv4_identification}).octets;
  }
  [[nodiscard]] Instant next_timeout() const noexcept;

  /// The owner has caught a fault while this read or wrote a program's memory: the present request
  /// fails.
  void handle_fault_while_sending() noexcept;
  void handle_fault_while_placing() noexcept;

  /// Completes all queued requests as flushed, oldest first.
  void flush() noexcept;
  [[nodiscard]] bool has_failed() const noexcept { return failed_; }

  [[nodiscard]] wire::Psn next_psn() const noexcept { return next_psn_; }
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  [[nodiscard]] const RatePolicy& rate() const noexcept { return rate_; }
  [[nodiscard]] const SendWindow& window() const noexcept { return window_; }
  [[nodiscard]] const RoundTrip& round_trip() const noexcept { return round_trip_; }
  /// Sequence numbers that are sent and not acknowledged.
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return static_cast<std::uint32_t>(cursor_psn().distance_from(oldest_psn_));
  }

 private:
  enum class Found : std::uint8_t { kAllThere, kGap };

  // Sending.
  [[nodiscard]] wire::Psn cursor_psn() const noexcept;
  [[nodiscard]] bool may_start(const SendEntry& entry) const noexcept;
  void start_entry(SendEntry& entry) noexcept;
  void execute_locally(SendEntry& entry) noexcept;
  [[nodiscard]] bool waits_for_company() noexcept;
  [[nodiscard]] bool waits_for_a_train(const SendEntry& entry,
                                       const TrainRoom& room) const noexcept;
  [[nodiscard]] TrainPart send_run(SendEntry& entry, const TrainRoom& room) noexcept;
  [[nodiscard]] std::uint32_t alike_packets(const SendEntry& entry) const noexcept;
  void write_run(SendEntry& entry, std::uint32_t count, const std::byte* payload,
                 wire::PacketRun& run) noexcept;
  [[nodiscard]] std::size_t send_message_packet(SendEntry& entry, std::span<std::byte> frame,
                                                std::uint16_t identification) noexcept;
  [[nodiscard]] std::size_t send_answered(SendEntry& entry, std::span<std::byte> frame,
                                          std::uint16_t identification) noexcept;
  [[nodiscard]] bool gather_payload(SendEntry& entry, const MessagePacket& part,
                                    wire::PacketBuilder& builder) noexcept;
  [[nodiscard]] bool wants_ack(std::uint32_t packet_index) const noexcept;
  void note_sent(Instant now, const TrainPart& part, wire::Psn before) noexcept;
  void advance_cursor(std::uint32_t packets, const SendEntry& entry) noexcept;

  // Answers.
  [[nodiscard]] bool is_outstanding(wire::Psn psn) const noexcept;
  void handle_acknowledge(Instant now, wire::Psn psn, wire::Aeth aeth) noexcept;
  void handle_rnr_nak(Instant now, wire::Psn psn, std::uint8_t timer_code) noexcept;
  void handle_sequence_nak(Instant now, wire::Psn psn) noexcept;
  void handle_fatal_nak(Instant now, wire::Psn psn, wire::Syndrome::Nak code) noexcept;
  void handle_read_response(Instant now, const wire::PacketView& packet) noexcept;
  void handle_atomic_response(Instant now, const wire::PacketView& packet) noexcept;
  [[nodiscard]] SendEntry* answered_entry(Instant now, wire::Psn psn) noexcept;
  [[nodiscard]] bool place(SendEntry& entry, std::uint32_t offset,
                           std::span<const std::byte> data) noexcept;
  void finish_answer(Instant now, SendEntry& entry, wire::Psn psn) noexcept;

  // Progress and going back.
  [[nodiscard]] Found acknowledge_through(wire::Psn psn) noexcept;
  [[nodiscard]] bool acknowledge_before(Instant now, wire::Psn psn) noexcept;
  void note_progress(Instant now, wire::Psn before) noexcept;
  void note_loss() noexcept;
  void take_round_trip(Instant now) noexcept;
  void restart_timer(Instant now) noexcept;
  void report_gap(Instant now) noexcept;
  void go_back_to(wire::Psn psn) noexcept;
  [[nodiscard]] bool spend_retry() noexcept;

  // Ending requests.
  void complete(SendEntry& entry) noexcept;
  void complete_done() noexcept;
  void fail_entry(SendEntry& entry, WcStatus status, Reason reason) noexcept;
  void fail_head(WcStatus status, Reason reason) noexcept;
  void publish(const SendEntry& entry, WcStatus status, Reason reason) noexcept;

  SendQueue* queue_ = nullptr;  // of the queue pair
  CompletionPort port_;
  memory::KeyTable keys_;
  Config config_{};
  Path path_{};
  RatePolicy rate_;
  SendWindow window_;
  RoundTrip round_trip_;
  Counters counters_;

  std::uint32_t cursor_ = 0;           // entry that the next packet belongs to
  std::uint32_t cursor_packet_ = 0;    // packet of that entry
  wire::Psn next_psn_{};               // of the next request that is started
  wire::Psn oldest_psn_{};             // all numbers before it are acknowledged
  wire::Psn sent_psn_{};               // one past the newest that was ever sent
  std::uint32_t released_ = 0;         // entries before this number do not wait for company
  std::uint32_t reads_in_flight_ = 0;  // READ pieces and atomics sent and not answered
  std::uint32_t answers_pending_ = 0;  // started requests whose answers are incomplete
  std::uint8_t retries_left_ = 0;
  std::uint8_t rnr_retries_left_ = 0;
  bool paused_ = false;
  bool failed_ = false;
  bool waits_for_receiver_ = false;  // after an RNR NAK: nothing is sent until rnr_until_
  bool gap_reported_ = false;        // one go-back per gap; cleared by progress
  Instant rnr_until_{};
  Instant deadline_ = Instant::never();   // the ack timeout: then a retry is counted
  Instant suspicion_ = Instant::never();  // before that: then packets are repeated without counting
  bool times_ = false;                    // the round trip of timed_psn_ is measured
  wire::Psn timed_psn_{};                 // the packet that is measured
  Instant timed_at_{};                    // when it was sent for the first time
};

}  // namespace verbatim::transport
