// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/fence.h"
#include "base/thread_token.h"

namespace verbatim {

/// A lock for what is nearly always used by one thread: that thread takes and leaves it with plain
/// loads and stores, no atomic read-modify-write and no release, which next to a line that a peer
/// polls makes a factor of five in the rate of SENDs. Any other thread can take it too, at the
/// price of two calls of membarrier(PRIVATE_EXPEDITED); from then on it is an ordinary lock, until
/// one thread has again had it kStreak times in a row with nobody waiting.
///
/// It is Lockable, so std::lock_guard and std::unique_lock work. Not recursive, not fair, private
/// to one process, and it does not move. Whoever locks it unlocks it, before the thread ends.
///
/// How it works. `word_` is an ordinary lock. `bias_` says which of the seats, if any, is the
/// favoured one; it changes only under `word_`. A seat belongs to one thread for good, so its
/// `held` has one writer, also when that thread stops between looking at `bias_` and storing to
/// `held` and goes on after the bias has moved. The lock is held by the thread in the favoured seat
/// whose `held` is set, or, if there is no favoured seat, by whoever has `word_`.
///   The favoured thread stores `held` and looks at `bias_` again. Whoever revokes has `word_`,
///   takes `bias_` away, calls the barrier, and waits for `held` to be clear. The barrier is a
///   fence in the favoured thread at one point: before its store of `held`, and then it finds the
///   bias gone and gives up; or after it, and then the revoker sees `held`. The barrier is called a
///   second time when `held` was seen clear: that plain store may have overtaken what the thread
///   did under the lock.
/// With Fencing::kFenced the favoured thread has the fence and the release itself.
///
/// System provides static functions, none of which throws:
/// - can_bias(): whether barrier() works; asked when a thread is about to be favoured;
/// - barrier(): a full fence in every running thread of this process;
/// - wait(word, value): sleeps while the std::atomic<uint32_t> has that value, or shorter;
/// - wake_one(word): ends one such sleep;
/// - relax(attempt): spins, then yields, then sleeps a little, for the favoured thread wakes nobody
///   when it leaves.
///
/// kSpins: looks at a lock that is taken before the thread sleeps. A hundred take some
/// microseconds.
template <typename System, Fencing kFencing = kBestFencing, std::uint32_t kSpins = 100>
class BiasedLock {
 public:
  BiasedLock() noexcept = default;
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;
  ~BiasedLock() = default;

  void lock() noexcept {
    if (!lock_as_favoured()) [[unlikely]]
      lock_as_any();
  }

  /// False while a thread has it, be it this one: a signal may have come in the midst. A thread
  /// that is favoured but not in is moved out, so the try can cost as much as lock(), without the
  /// waiting. It may also fail while another thread is about to do that.
  [[nodiscard]] bool try_lock() noexcept {
    return !is_in_as_favoured() && (lock_as_favoured() || try_lock_as_any());
  }

  void unlock() noexcept {
    const std::uint32_t seat = held_by_;
    if (seat == kNoSeat) [[unlikely]] {
      unlock_word();
    } else {
      stand_up(seats_[seat]);
    }
  }

  /// For the child after fork(): the lock is free, whether its one thread had it or not. The
  /// threads that had it or waited for it were left behind, with marks of theirs in it.
  void reset() noexcept {
    for (Seat& seat : seats_) {
      seat.owner.store(0, std::memory_order_relaxed);
      seat.held.store(0, std::memory_order_relaxed);
    }
    bias_.store(kNoSeat, std::memory_order_relaxed);
    held_by_ = kNoSeat;
    last_ = 0;
    streak_ = 0;
    word_.store(kFree, std::memory_order_release);
  }

  /// Whether the calling thread has it, is about to have it, or is about to let it go: a handler of
  /// a signal that asks must not wait for it then. A thread that has it not is told so, unless it
  /// lies exactly a multiple of 16 GiB from one that has it (mark_of()).
  [[nodiscard]] bool is_held_by_me() const noexcept {
    const std::uintptr_t me = thread_token();
    for (const Seat& seat : seats_) {
      if (seat.owner.load(std::memory_order_relaxed) == me &&
          seat.held.load(std::memory_order_relaxed) != 0) {
        return true;
      }
    }
    return (word_.load(std::memory_order_relaxed) & ~kAwaited) == mark_of(me);
  }

  /// Whether the calling thread has the cheap way in.
  [[nodiscard]] bool favours_me() const noexcept {
    return is_mine(bias_.load(std::memory_order_relaxed));
  }

  /// Takes in a row, by one thread and undisturbed, that win it the bias: together they cost about
  /// what taking the bias away costs, so neither is ever more than half of the whole.
  static constexpr std::uint32_t kStreak = 64;
  /// Different threads that can be favoured in the life of a lock.
  static constexpr std::uint32_t kSeats = 4;

 private:
  static constexpr std::uint32_t kNoSeat = kSeats;  // its owner is nobody, so bias_ is an index
  // word_: free, or the mark of the thread that has it, and whether others may wait for it.
  static constexpr std::uint32_t kFree = 0, kAwaited = 1, kTaken = 2;
  static constexpr bool kIsFenced =
      kFencing == Fencing::kFenced || kBestFencing == Fencing::kFenced;

  struct Seat {
    std::atomic<std::uintptr_t> owner = 0;  // a thread_token(); set once, under word_
    std::atomic<std::uint32_t> held = 0;  // 1: the owner is in, or about to look whether it may be
  };

  [[nodiscard]] bool lock_as_favoured() noexcept {
    const std::uint32_t index = bias_.load(std::memory_order_relaxed);
    Seat& seat = seats_[index];
    if (seat.owner.load(std::memory_order_relaxed) != thread_token()) return false;
    seat.held.store(1, std::memory_order_relaxed);
    if constexpr (kIsFenced) {
      full_fence();  // pairs with the one in fence_favoured()
    } else {
      compiler_barrier();
    }
    if (bias_.load(std::memory_order_relaxed) != index) [[unlikely]] {
      stand_up(seat);
      return false;
    }
    compiler_barrier();
    held_by_ = index;
    return true;
  }

  void stand_up(Seat& seat) noexcept {
    compiler_barrier();
    // The release pairs with the acquire in is_empty(); without it, there is the second barrier.
    seat.held.store(0, kIsFenced ? std::memory_order_release : std::memory_order_relaxed);
  }

  [[gnu::noinline]] void lock_as_any() noexcept {
    const bool waited = lock_word();
    const std::uint32_t index = bias_.load(std::memory_order_relaxed);
    if (is_mine(index)) return sit_down(index);  // a try_lock() took the bias away and gave it back
    if (index != kNoSeat) {
      bias_.store(kNoSeat, std::memory_order_relaxed);
      fence_favoured();
      for (std::uint32_t attempt = 0; !is_empty(seats_[index]); ++attempt) System::relax(attempt);
      fence_favoured();
    }
    settle(waited);
  }

  [[gnu::noinline]] bool try_lock_as_any() noexcept {
    std::uint32_t expected = kFree;
    const std::uint32_t mine = mark_of(thread_token());
    if (!word_.compare_exchange_strong(expected, mine, std::memory_order_acquire)) return false;
    const std::uint32_t index = bias_.load(std::memory_order_relaxed);
    if (is_mine(index)) {
      sit_down(index);
      return true;
    }
    if (index != kNoSeat && !evict(index)) {
      unlock_word();
      return false;
    }
    settle(false);
    return true;
  }

  /// Takes the bias away unless its owner is in. The caller has word_.
  [[nodiscard]] bool evict(std::uint32_t index) noexcept {
    if (!is_empty(seats_[index])) return false;  // most likely still so after the barrier
    bias_.store(kNoSeat, std::memory_order_relaxed);
    fence_favoured();
    if (!is_empty(seats_[index])) {
      // It is in, or has found the bias gone and waits for word_: both may find the bias here
      // again.
      bias_.store(index, std::memory_order_relaxed);
      return false;
    }
    fence_favoured();
    return true;
  }

  /// The caller has word_, and nobody is favoured: counts, and perhaps favours the caller.
  void settle(bool waited) noexcept {
    held_by_ = kNoSeat;
    const std::uintptr_t me = thread_token();
    const bool awaited = waited || (word_.load(std::memory_order_relaxed) & kAwaited) != 0;
    if (last_ != me || awaited) streak_ = 0;
    last_ = me;
    if (++streak_ < kStreak) return;
    streak_ = 0;
    const std::uint32_t index = seat_of(me);
    if (index == kNoSeat || !(kIsFenced || System::can_bias())) return;
    bias_.store(index, std::memory_order_relaxed);
    sit_down(index);
  }

  /// From holding by word_ to holding by the seat that is already the favoured one.
  void sit_down(std::uint32_t index) noexcept {
    seats_[index].held.store(1, std::memory_order_relaxed);
    held_by_ = index;
    unlock_word();  // whoever has word_ next sees the bias and the seat taken
  }

  /// The thread's seat, its own for good, or kNoSeat when others have them all.
  [[nodiscard]] std::uint32_t seat_of(std::uintptr_t me) noexcept {
    for (std::uint32_t index = 0; index < kSeats; ++index) {
      const std::uintptr_t owner = seats_[index].owner.load(std::memory_order_relaxed);
      if (owner == 0) seats_[index].owner.store(me, std::memory_order_relaxed);
      if (owner == 0 || owner == me) return index;
    }
    return kNoSeat;
  }

  [[nodiscard]] bool is_in_as_favoured() const noexcept {
    const std::uint32_t index = bias_.load(std::memory_order_relaxed);
    return is_mine(index) && seats_[index].held.load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] bool is_mine(std::uint32_t index) const noexcept {
    return seats_[index].owner.load(std::memory_order_relaxed) == thread_token();
  }
  [[nodiscard]] static bool is_empty(const Seat& seat) noexcept {
    return seat.held.load(std::memory_order_acquire) == 0;  // pairs with stand_up()
  }
  static void fence_favoured() noexcept {
    if constexpr (kIsFenced) {
      full_fence();  // pairs with the fence in lock_as_favoured()
    } else {
      System::barrier();
    }
  }

  /// Whether it had to wait.
  bool lock_word() noexcept {
    const std::uint32_t mine = mark_of(thread_token());
    for (std::uint32_t attempt = 0; attempt <= kSpins; ++attempt) {
      std::uint32_t expected = kFree;
      // pairs with unlock_word()
      if (word_.compare_exchange_weak(expected, mine, std::memory_order_acquire)) {
        return attempt != 0;
      }
      System::relax(0);
    }
    for (;;) {
      std::uint32_t seen = word_.load(std::memory_order_relaxed);
      // Other threads may wait as well: a thread that has waited wakes one of them in unlock().
      const std::uint32_t wanted = seen == kFree ? mine | kAwaited : seen | kAwaited;
      const bool is_so =
          seen == wanted || word_.compare_exchange_weak(seen, wanted, std::memory_order_acquire);
      if (!is_so) continue;
      if (seen == kFree) return true;
      System::wait(word_, wanted);
    }
  }
  void unlock_word() noexcept {
    // pairs with lock_word()
    const std::uint32_t before = word_.exchange(kFree, std::memory_order_release);
    if ((before & kAwaited) != 0) System::wake_one(word_);
  }
  /// Tells threads apart: their tokens are aligned, and lie pages apart.
  [[nodiscard]] static std::uint32_t mark_of(std::uintptr_t token) noexcept {
    return static_cast<std::uint32_t>(token >> 4) << 2 | kTaken;
  }

  std::atomic<std::uint32_t> bias_ = kNoSeat;  // index of the favoured seat; changed under word_
  std::uint32_t held_by_ = kNoSeat;            // the holder's: its seat, or kNoSeat for word_
  std::array<Seat, kSeats + 1> seats_{};       // the last is nobody's
  std::atomic<std::uint32_t> word_ = kFree;
  std::uint32_t streak_ = 0;  // under word_: takes in a row by
  std::uintptr_t last_ = 0;   // under word_: this thread
};

}  // namespace verbatim
