// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/adapter_role.h"
#include "device/adapter.h"
#include "device/completion_channel.h"
#include "device/limits.h"
#include "host/adapter_guard.h"
#include "host/crowd_gauge.h"
#include "host/queue_lock.h"
#include "host/rest_choice.h"
#include "host/spinner_turns.h"
#include "host/vain_polls.h"
#include "transport/queues/completion_lanes.h"

namespace verbatim::device {

/// The most completions that a queue may hold.
inline constexpr std::uint32_t kMaxCompletions = 1U << 22;

/// A completion queue of a context: lanes in the segment, and the channel that announces
/// completions.
class CompletionQueue {
 public:
  /// The most lanes of one queue: all queue pairs may share it, with a send and a receive queue
  /// each. The board is in memory that peers map and has fewer hints: with more lanes than hints,
  /// several lanes share one.
  static constexpr std::uint32_t kLaneLimit = 2 * kMaxQueuePairs;
  static constexpr std::uint32_t kHintCount = 1U << 15;

  /// `user_tag` is the subject of its events. kInvalidArgument for a capacity out of range.
  [[nodiscard]] static Expected<std::unique_ptr<CompletionQueue>> create(
      std::shared_ptr<Adapter> adapter, std::uint32_t capacity, CompletionChannel* channel,
      EventPipe* async, std::uint64_t user_tag);
  CompletionQueue(std::shared_ptr<Adapter> adapter, std::span<std::byte> block,
                  std::uint32_t capacity);
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;
  ~CompletionQueue();

  /// Collects completions. It makes progress when there are none.
  [[nodiscard]] std::size_t poll(std::span<transport::Completion> into) noexcept {
    {
      const std::lock_guard lock(lock_);
      const std::size_t count = queue_.poll(into);
      if (keeps_timestamps_) [[unlikely]]
        stamp(into.first(count));
      if (queue_.has_stale_hints()) [[unlikely]]
        queue_.lower_hints(Visitors::arming_barrier);
      if (count > 0) {
        vain_.note_success();
        turns_.note_success();
        return count;
      }
      vain_.note_glance();
      if (!needs_progress()) return 0;
    }
    return poll_with_progress(into);
  }
  /// To be called without any lock by a thread whose poll() has found nothing: now and then it
  /// gives the processor to a thread that wants it.
  void rest_after_vain_poll() noexcept {
    if (vain_.is_long() && adapter_->gives_way()) [[unlikely]]
      give_way();
  }
  /// The same for a thread whose poll() has found something. Such a thread may spin on memory.
  void share_after_poll() noexcept {
    if (turns_.is_due() && adapter_->gives_way()) [[unlikely]]
      take_turn();
  }
  void arm(transport::Arming what) noexcept;
  /// kNotSupported when it would have to grow and a lane cannot grow with it.
  [[nodiscard]] Status resize(std::uint32_t capacity) noexcept;
  /// From now on completions carry the time at which they became available.
  void keep_timestamps() noexcept {
    keeps_timestamps_ = true;
    queue_.keep_time();
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return queue_.capacity(); }
  /// Whether a queue pair uses it.
  [[nodiscard]] bool has_users() const noexcept {
    const host::AdapterGuard lock(adapter_->mutex());
    return users_ > 0;
  }

  // For queue pairs, with the adapter's lock held.
  /// The address of the board, which producers touch, in the segment.
  [[nodiscard]] const std::byte* board() const noexcept { return block_.data(); }
  [[nodiscard]] Expected<transport::CompletionPort> attach(transport::CompletionLane lane) noexcept
      VB_REQUIRES(adapter_role);
  void detach(const transport::CompletionPort& port) noexcept VB_REQUIRES(adapter_role);
  void discard(const transport::CompletionPort& port) noexcept VB_REQUIRES(adapter_role);
  /// Moves the lane to another block. The producer keeps the old block.
  [[nodiscard]] transport::CompletionPort move_lane(const transport::CompletionPort& port,
                                                    std::span<std::byte> block) noexcept
      VB_REQUIRES(adapter_role);
  /// A lane of a queue pair on a shared receive queue is only as deep as this queue is at that
  /// time. While there is such a lane, the queue cannot grow.
  void pin_capacity() noexcept VB_REQUIRES(adapter_role) { ++pinned_; }
  void unpin_capacity() noexcept VB_REQUIRES(adapter_role) { --pinned_; }
  /// In a forked child: the thread that may have held the lock does not exist there.
  void free_in_child() noexcept { lock_.reset(); }
  /// Writes the events that are due to the channel, and reports an overrun once. True when the
  /// queue has overrun.
  bool announce() noexcept VB_REQUIRES(adapter_role);
  /// Counts the work queues whose completions are written without the adapter's lock.
  void count_direct_users(int change) noexcept {
    direct_users_.fetch_add(static_cast<std::uint32_t>(change), std::memory_order_relaxed);
  }
  /// Whether announce() must be called now. Without the lock.
  [[nodiscard]] bool has_event() const noexcept { return queue_.has_event(); }
  /// Whether announce() must be called soon after each completion.
  [[nodiscard]] bool is_waited_for() const noexcept {
    return has_event() || keeps_timestamps_ || is_rested_for_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool may_overrun() const noexcept { return lane_limit() != kNeverOverrun; }
  /// The most completions of one lane before the queue may have overrun.
  [[nodiscard]] std::uint32_t lane_limit() const noexcept {
    return overrun_beyond_.load(std::memory_order_relaxed);
  }

 private:
  /// Gives the present time to completions that announce() has not seen. With the queue's lock
  /// held, so completions that announce() sees later get later times.
  void stamp(std::span<transport::Completion> collected) noexcept;
  [[nodiscard]] bool finds_overrun() noexcept VB_REQUIRES(adapter_role);
  [[nodiscard]] std::size_t poll_with_progress(std::span<transport::Completion> into) noexcept;
  /// Whether it is worth looking for packets. If completions also come directly, most calls do not
  /// look, because reading sockets would slow down the poller.
  [[nodiscard]] bool needs_progress() noexcept {
    constexpr std::uint32_t kPollsPerLook = 64;
    if (adapter_->work().has_work()) return true;
    if (!adapter_->work().has_packet_users()) return false;
    if (direct_users_.load(std::memory_order_relaxed) == 0) return true;
    return ++direct_polls_ % kPollsPerLook == 0;
  }
  void give_way() noexcept;
  void take_turn() noexcept;
  [[nodiscard]] bool is_rest_better() noexcept;
  [[nodiscard]] bool rest() noexcept;
  void take_what_has_woken(Instant at) noexcept VB_REQUIRES(adapter_role);
  void note_places(std::int64_t change) noexcept VB_REQUIRES(adapter_role);

  std::shared_ptr<Adapter> adapter_;
  std::span<std::byte> block_;
  std::vector<transport::CompletionLane> lanes_;  // room for them, which grows with their number
  transport::CompletionLanes queue_;
  CompletionChannel* channel_ = nullptr;
  EventPipe::Unread unread_events_;  // of the channel
  EventPipe* async_ = nullptr;
  std::uint64_t user_tag_ = 0;
  std::uint32_t users_ VB_GUARDED_BY(adapter_role) = 0;   // lanes attached
  std::uint32_t pinned_ VB_GUARDED_BY(adapter_role) = 0;  // lanes that keep the queue from growing
  std::uint64_t lane_places_ VB_GUARDED_BY(adapter_role) =
      0;  // sum of the depths: an overrun needs more than the capacity
  std::uint32_t unchecked_ VB_GUARDED_BY(adapter_role) = 0;  // announcements since the last count
  bool overrun_ VB_GUARDED_BY(adapter_role) = false;
  static constexpr std::uint32_t kNeverOverrun = 0xffff'ffff;
  std::atomic<std::uint32_t> overrun_beyond_{kNeverOverrun};  // capacity, if lanes can hold more
  std::atomic<std::uint32_t> direct_users_{0};                // of its lanes
  std::uint32_t direct_polls_ = 0;          // that found nothing, if completions also come directly
  host::VainPolls vain_;                    // written with the queue's lock held
  host::SpinnerTurns turns_;                // likewise
  host::CrowdGauge gauge_;                  // guarded by the queue's lock
  host::RestChoice rests_;                  // likewise
  std::atomic<bool> is_rested_for_{false};  // a thread rests until it has completions
  host::QueueLock lock_;                    // guards the queue; taken after the adapter's
  bool keeps_timestamps_ = false;           // set before the first queue pair attaches
};

}  // namespace verbatim::device
