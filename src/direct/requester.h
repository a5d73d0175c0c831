// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "direct/access_list.h"
#include "direct/errand.h"
#include "direct/target.h"
#include "memory/key_table.h"
#include "transport/queues/completion_lanes.h"
#include "transport/queues/send_queue.h"
#include "transport/reason.h"
#include "transport/traffic.h"
#include "wire/headers/psn.h"

namespace verbatim::direct {

/// The sending side of a connection within one host: executes the requests of a send queue in the
/// peer's memory and queues, one after the other, each to its end, with the completions that the
/// requester of a packet connection would report.
///
/// Its queue pair calls run() whenever a request was posted or something may have changed, and no
/// later than next_timeout(). When has_failed(), the failed request has been completed, and the
/// queue pair moves to its error state and flushes the rest. Thread: the one that holds the queue
/// pair's lock.
class Requester {
 public:
  struct Config {
    memory::DomainId domain = memory::DomainId::kNone;
    wire::QpNumber number{};  // of the requester's queue pair, for completions
    std::uint32_t path_mtu = 1024;
    std::uint8_t retry_limit = 7;
    std::uint8_t rnr_retry_limit = 7;
    std::uint8_t max_read_atomic = 1;
    bool is_reliable = true;
    bool signal_all = false;
    Duration ack_timeout{0};                // 0: never
    transport::Traffic* traffic = nullptr;  // the counters; not null, and outlive the requester
  };
  /// Why run() has returned.
  enum class Stop : std::uint8_t {
    kIdle,     // nothing is left to do
    kMore,     // requests are left; it is the turn of other queue pairs
    kWaiting,  // for the peer, at most until next_timeout()
    kFailed,
    kMismatch,  // the ends do not fit: nothing was executed, packets are to carry the requests
  };
  /// Octets that one call moves before it is the turn of other queue pairs, and octets of a chunk:
  /// between two chunks the requester leaves, so that the owner of the half can change it.
  static constexpr std::uint32_t kTurnOctets = 1024 * 1024;
  static constexpr std::uint32_t kChunkOctets = 256 * 1024;
  /// The most octets that the short way moves, as one chunk.
  static constexpr std::uint32_t kShortOctets = kTurnOctets;

  Requester(transport::SendQueue* queue, transport::CompletionPort port, memory::KeyTable keys,
            Target target, Instant (*clock)()) noexcept
      : queue_(queue),
        port_(port),
        target_(std::move(target)),
        keys_(keys),
        clock_(clock),
        party_(AccessParty::Kind::kRequester, target_.visit().inside()) {}

  /// Begins with an empty history.
  void start(const Config& config, wire::Psn first_psn) noexcept;
  /// New attributes of a connection that goes on.
  void reconfigure(const Config& config) noexcept;
  /// While paused (SQD), no request is started; one that has begun is finished.
  void pause(bool paused) noexcept { paused_ = paused; }

  [[nodiscard]] Stop run() noexcept;
  /// Executes requests at once when they are posted, without an entry in the send queue, as long as
  /// the queue is empty and the short way can execute them. All others get an entry, for run().
  ///
  /// `requests.peek(request)` describes the next SEND, WRITE or READ of one piece, or is false;
  /// pop() goes on to the next one. Requests that were not popped have had no effect and can be
  /// posted. (short_way.h)
  template <typename Requests>
  void run_short(Requests& requests) noexcept;
  [[nodiscard]] Instant next_timeout() const noexcept { return std::min(wait_.until, wait_.look); }
  [[nodiscard]] bool has_failed() const noexcept { return failed_; }
  /// The caller of run() has caught a fault in it: memory of this process or of the peer is
  /// registered, but its program has unmapped it.
  void handle_memory_fault(const void* at) noexcept;

  /// The owner of the memory has executed an errand of this requester. Call run() next.
  void handle_reply(const Errand& reply, std::span<const std::byte> octets);

  [[nodiscard]] Target& target() noexcept { return target_; }
  /// Whether the next request needs a receive and the peer has posted none.
  [[nodiscard]] bool waits_for_receive() const noexcept {
    return wait_.what == Wait::For::kReceive;
  }
  [[nodiscard]] bool has_met() const noexcept { return has_met_; }
  /// Meets the other end before a request is posted. Whether the two have met.
  [[nodiscard]] bool meet() noexcept {
    has_met_ = has_met_ || target_.meet() == Target::Meeting::kMet;
    return has_met_;
  }
  [[nodiscard]] wire::Psn next_psn() const noexcept { return next_psn_; }

 private:
  /// The outcome of one step of a request.
  enum class Step : std::uint8_t { kPart, kDone, kNotReady, kSilence, kFailed };
  static constexpr std::size_t kChunkPieceLimit = 32;

  [[nodiscard]] bool is_clear() const noexcept {
    return has_met_ && queue_->is_empty() && !failed_ && !paused_ &&
           wait_.what == Wait::For::kNothing && on_errand_ == OnErrand::kNo;
  }
  [[nodiscard]] bool execute_short(transport::ShortRequest& request) noexcept;
  [[nodiscard]] bool may_read_short(bool is_inline) const noexcept {
    return !is_inline && config_.is_reliable && config_.max_read_atomic > 0;
  }
  void lose_completion() noexcept;
  [[nodiscard]] Step execute(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step execute_inside(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step finish_late(transport::SendEntry& entry, Step step,
                                 std::uint32_t answered_before) noexcept;
  [[nodiscard]] Step execute_locally(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step move(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step execute_atomic(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step execute_atomic_write(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step step_of(transport::SendEntry& entry, Answer answer) noexcept;
  [[nodiscard]] Step send_errand(transport::SendEntry& entry) noexcept;
  [[nodiscard]] bool pack_octets(transport::SendEntry& entry, std::uint32_t octets) noexcept;
  [[nodiscard]] Step look_for_reply(transport::SendEntry& entry) noexcept;
  [[nodiscard]] Step finish_errand(transport::SendEntry& entry) noexcept;
  template <typename Access>
  [[nodiscard]] bool in_own_memory(Access&& access) noexcept;
  [[nodiscard]] bool place(std::span<const std::byte> octets, transport::SendEntry& entry) noexcept;
  [[nodiscard]] bool gather(transport::SendEntry& entry, std::uint32_t octets,
                            memory::Access need) noexcept;
  /// The outcome of a request that the peer does not take: an unreliable one is done, it is lost.
  [[nodiscard]] Step unanswered() const noexcept {
    return config_.is_reliable ? Step::kSilence : Step::kDone;
  }
  void begin(transport::SendEntry& entry) noexcept;
  void publish(const transport::SendEntry& entry, transport::WcStatus status,
               transport::Reason reason = transport::Reason::kNone) noexcept;
  void complete(const transport::SendEntry& entry) noexcept;
  void count(const transport::SendEntry& entry) noexcept {
    config_.traffic->count_message(entry.octets);
  }
  [[nodiscard]] Step fail(transport::SendEntry& entry, transport::WcStatus status,
                          transport::Reason reason) noexcept;
  [[nodiscard]] Stop wait_for_receive() noexcept;
  [[nodiscard]] Stop wait_for_answer() noexcept;
  void stop_waiting() noexcept;
  void look_again(Instant now, Duration pause_max) noexcept;

  struct Wait {
    enum class For : std::uint8_t { kNothing, kReceive, kAnswer };
    For what = For::kNothing;
    std::uint8_t tries_left = 0;
    bool peer_has_gone = false;        // as the wait has noticed
    Instant until = Instant::never();  // the next try then counts as a retry
    Instant look = Instant::never();   // the next try before that: not every change wakes it
    Duration pause{0};                 // since the last look
  };
  /// The state of an errand for the first request of the queue.
  enum class OnErrand : std::uint8_t { kNo, kToSend, kSent, kReplied };

  // What every request needs comes first, close together: many queue pairs share a cache.
  transport::SendQueue* queue_;
  transport::CompletionPort port_;
  wire::Psn next_psn_{};
  bool paused_ = false;
  bool failed_ = false;
  bool has_met_ = false;       // the target has been met
  bool is_inside_ = false;     // a visit goes on
  bool accesses_own_ = false;  // an access to memory of this process, without a visit
  OnErrand on_errand_ = OnErrand::kNo;
  Wait wait_;
  Config config_;
  memory::KnownRegion known_source_;  // of the last short request
  Target target_;
  memory::KeyTable keys_;  // of this process
  Instant (*clock_)();
  Errand errand_;                         // sent last, or the reply to it
  std::vector<std::byte> errand_octets_;  // that follow it
  std::uint32_t piece_count_ = 0;
  std::array<iovec, kChunkPieceLimit> pieces_{};  // of the present chunk
  AccessParty party_;                             // in memory of this process
};

}  // namespace verbatim::direct
