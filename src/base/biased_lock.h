// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/fence.h"
#include "base/thread_token.h"

namespace verbatim {

/// A lock that one thread takes nearly always. That thread takes and releases it with plain loads
/// and stores, without an atomic read-modify-write and without a release store. Next to a cache
/// line that a peer polls, this makes the rate of SENDs five times higher. Any other thread can
/// take the lock too, and pays two calls of membarrier(PRIVATE_EXPEDITED). From then on it is an
/// ordinary lock, until one thread has taken it kStreak times in a row while no other thread
/// waited.
///
/// It is Lockable, so std::lock_guard and std::unique_lock work. Not recursive, not fair, private
/// to one process, not movable. The thread that locks it unlocks it before it ends.
///
/// How it works. `word_` is an ordinary lock. Each of the few seats belongs to one thread for good.
/// `bias_` is the index of the favoured seat, or kNoSeat; it changes only under `word_`. The `held`
/// of a seat has one writer, its thread, also when that thread pauses between reading `bias_` and
/// storing `held` and goes on after the bias has moved. If there is a favoured seat, its thread
/// holds the lock while `held` is set. If there is none, the thread that has `word_` holds the
/// lock.
///   The favoured thread stores `held` and reads `bias_` again. A thread that revokes the bias
///   takes `word_`, stores kNoSeat to `bias_`, calls the barrier, and waits until `held` is clear.
///   The barrier is a fence in the favoured thread at one point of its program. If that point lies
///   before its store of `held`, the favoured thread finds the bias gone and gives up. If it lies
///   after that store, the revoking thread sees `held`. When `held` is clear, the revoking thread
///   calls the barrier a second time, because the plain store that clears `held` may have become
///   visible before stores that the favoured thread made under the lock.
/// With Fencing::kFenced the favoured thread has the fence and the release store itself.
///
/// System provides static functions, none of which throws:
/// - can_bias(): whether barrier() works; called before a thread becomes the favoured one;
/// - barrier(): a full fence in every running thread of this process;
/// - wait(word, value): sleeps while the std::atomic<uint32_t> has that value; may return early;
/// - wake_one(word): ends one such sleep;
/// - relax(attempt): spins, then yields, then sleeps a little, because the favoured thread wakes no
///   thread when it releases the lock.
///
/// kSpins: attempts to take a lock that is held before the thread sleeps. A hundred take some
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

  /// False while any thread holds it, also the calling one: the caller may be a signal handler that
  /// has interrupted the holder. The bias of a thread that does not hold the lock is revoked, so
  /// the call can cost as much as lock(), without the waiting. It can also fail while another
  /// thread revokes the bias.
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

  /// For the child after fork(2): the lock is free, whether or not the thread that forked held it.
  /// The threads that held it or waited for it do not exist in the child.
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

  /// Whether the calling thread holds it, is about to hold it, or is about to release it: then a
  /// signal handler must not wait for it. True by mistake only if the thread pointers of the caller
  /// and of the holder lie exactly a multiple of 16 GiB apart (mark_of()).
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

  /// Whether the calling thread is the favoured one.
  [[nodiscard]] bool favours_me() const noexcept {
    return is_mine(bias_.load(std::memory_order_relaxed));
  }

  /// When one thread has taken the lock this many times in a row and no other thread has waited, it
  /// becomes the favoured one. So many acquisitions cost about as much as one revocation, so
  /// revocations never cost more than half of the whole.
  static constexpr std::uint32_t kStreak = 64;
  /// How many different threads can be favoured while the lock exists.
  static constexpr std::uint32_t kSeats = 4;

 private:
  static constexpr std::uint32_t kNoSeat = kSeats;  // a seat without owner, so bias_ is an index
  // word_: free, or the mark of the thread that holds it and whether other threads may wait for it.
  static constexpr std::uint32_t kFree = 0, kAwaited = 1, kTaken = 2;
  static constexpr bool kIsFenced =
      kFencing == Fencing::kFenced || kBestFencing == Fencing::kFenced;

  struct Seat {
    std::atomic<std::uintptr_t> owner = 0;  // a thread_token(); set once, under word_
    std::atomic<std::uint32_t> held = 0;  // 1: the owner holds the lock, or is about to check bias_
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
    // The release pairs with the acquire in is_empty(); without it, the second barrier has its
    // place.
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
    count_acquisition(waited);
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
    count_acquisition(false);
    return true;
  }

  /// Revokes the bias unless the favoured thread holds the lock. The caller has word_.
  [[nodiscard]] bool evict(std::uint32_t index) noexcept {
    if (!is_empty(seats_[index])) return false;  // most likely also after the barrier
    bias_.store(kNoSeat, std::memory_order_relaxed);
    fence_favoured();
    if (!is_empty(seats_[index])) {
      // The favoured thread holds the lock, or has found the bias gone and waits for word_. In both
      // cases it is correct to restore the bias.
      bias_.store(index, std::memory_order_relaxed);
      return false;
    }
    fence_favoured();
    return true;
  }

  /// Counts an acquisition. After kStreak in a row, favours the caller. The caller has word_, and
  /// no thread is favoured.
  void count_acquisition(bool waited) noexcept {
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

  /// The caller holds the lock by word_; from now on it holds it by the favoured seat, its own.
  void sit_down(std::uint32_t index) noexcept {
    seats_[index].held.store(1, std::memory_order_relaxed);
    held_by_ = index;
    unlock_word();  // the next thread that has word_ sees the bias and the seat's `held`
  }

  /// The seat of this thread, the same one each time; kNoSeat when other threads have all seats.
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

  /// Returns whether it had to wait.
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
  /// Different for different threads: their tokens are aligned and lie pages apart.
  [[nodiscard]] static std::uint32_t mark_of(std::uintptr_t token) noexcept {
    return static_cast<std::uint32_t>(token >> 4) << 2 | kTaken;
  }

  std::atomic<std::uint32_t> bias_ = kNoSeat;  // index of the favoured seat; changed under word_
  std::uint32_t held_by_ = kNoSeat;            // the holder's: its seat; kNoSeat: it holds word_
  std::array<Seat, kSeats + 1> seats_{};       // the last one has no owner
  std::atomic<std::uint32_t> word_ = kFree;
  std::uint32_t streak_ = 0;  // under word_: acquisitions in a row by last_
  std::uintptr_t last_ = 0;   // under word_: token of the last thread that took the lock
};

}  // namespace verbatim
