// SPDX-License-Identifier: Apache-2.0
#include "device/engine.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>
#include <vector>

#include "base/futex.h"
#include "device/adapter_work.h"
#include "device/clock.h"
#include "device/management_port.h"
#include "device/peer_service.h"
#include "device/region_homes.h"
#include "host/ring.h"
#include "host/time_slice.h"

namespace verbatim::device {
namespace {

// A caller that looked at the sockets within this time is still there: a thread that polls does so
// every few hundred nanoseconds. A longer time would be wrong for programs that poll for their own
// completion and then spin on memory that only the engine can fill.
constexpr Duration kCallerPresence = std::chrono::microseconds(3);
// If a caller has looked within this time before the engine was woken up, the engine has
// interrupted the caller, which would have found the packets itself.
constexpr Duration kInterruption = std::chrono::microseconds(8);
// A caller that was there within kCallerReturns may come back at once. Answers wait
// kReturnPatience for it.
constexpr Duration kCallerReturns = std::chrono::microseconds(100);
constexpr Duration kReturnPatience = std::chrono::microseconds(15);
// While a caller is there, the engine sleeps for longer and longer times, and looks each time
// whether the caller has gone.
constexpr Duration kShortNap = std::chrono::microseconds(10);
constexpr Duration kLongNap = std::chrono::microseconds(160);
// For this time after a caller has rested, or spinners were seen, the engine expects it again.
constexpr Duration kSharingLasts = std::chrono::milliseconds(10);
// How often it looks then whether answers were kept too long.
constexpr Duration kNapBesideRests = std::chrono::milliseconds(2);
// How often it wakes up beside spinners, and how long their time slices are.
constexpr Duration kNapBesideSpinners = std::chrono::microseconds(350);
constexpr Duration kSpinnersTimeSlice = std::chrono::microseconds(200);
// After packets have waited, the engine watches the sockets itself for kVigilance wake-ups. A
// wake-up that finds nothing, because a caller was faster, counts kUselessWakeUp times.
constexpr int kVigilance = 64;
constexpr int kUselessWakeUp = 4;
// How often the engine sleeps again because callers are there or hold the lock, before it waits for
// the lock: it has timers of its own.
constexpr int kTriesForTheLock = 8;
// A turn that moves so many packets is part of a stream, and the next train is on its way. A sender
// needs about twenty microseconds for a train.
constexpr std::uint64_t kStreamPackets = 8;
constexpr Duration kNextOfStream = std::chrono::microseconds(50);
// If sched_yield(2) takes longer than kElsewhere, another thread has used the processor for a time
// slice. That thread may be the sender.
constexpr Duration kElsewhere = std::chrono::microseconds(300);
constexpr Duration kCrowdLasts = std::chrono::seconds(1);
// The time without events after which a long wait begins.
constexpr Duration kDoze = std::chrono::milliseconds(100);
// The shortest time slice that the scheduler accepts.
constexpr Duration kTimeSlice = std::chrono::microseconds(100);

/// The engine sleeps for shorter times than the system's usual tolerance, and must not wait for the
/// rest of the time slice of a program that spins on memory.
void ask_for_prompt_wake_ups() noexcept {
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  host::limit_time_slice(kTimeSlice);
}

timespec time_until(Instant end) noexcept {
  if (end == Instant::never()) return {};
  const auto nanoseconds = std::max<std::int64_t>(0, (end - now()).count());
  return {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
}

/// Kernels before 5.11 have no wait in nanoseconds, and some sandboxes forbid it. The wait is then
/// rounded up to milliseconds.
int wait_for_events(int epoll, std::span<epoll_event> events, const timespec& limit) noexcept {
  static std::atomic<bool> is_fine{true};
  const auto room = static_cast<int>(events.size());
  if (is_fine.load(std::memory_order_relaxed)) {
    const int count = ::epoll_pwait2(epoll, events.data(), room, &limit, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    is_fine.store(false, std::memory_order_relaxed);
  }
  constexpr std::int64_t kLongest = 1 << 30;
  const std::int64_t milliseconds =
      std::min(kLongest, limit.tv_sec * std::int64_t{1000} + (limit.tv_nsec + 999'999) / 1'000'000);
  return ::epoll_wait(epoll, events.data(), room, static_cast<int>(milliseconds));
}

}  // namespace

Status Engine::start() noexcept {
  epoll_ = host::OwnDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  bell_ = host::OwnDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.is_open() || !bell_.is_open()) return Errc::kNoMemory;
  if (auto opened = tether_.open(); !opened) return opened;
  epoll_event bell{.events = EPOLLIN, .data = {.fd = bell_.number()}};
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, bell_.number(), &bell);
  if (auto opened = parts_.sockets.open(epoll_); !opened) return opened;
  {
    const host::AdapterGuard lock(parts_.lock);
    watch_link();
  }
  // The management port is always watched, also while callers poll.
  epoll_event requests{.events = EPOLLIN, .data = {.fd = parts_.management.descriptor()}};
  ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, parts_.management.descriptor(), &requests);
  // What ends the network stays readable for ever, but is reported once.
  epoll_event notices{.events = EPOLLIN | EPOLLET, .data = {.fd = parts_.network.notices()}};
  if (notices.data.fd >= 0)
    ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, parts_.network.notices(), &notices);
  if (auto opened = parts_.peers.open(epoll_.number(), bell_); !opened) return opened;
  // Faults inside guarded() must reach the thread that causes them.
  return thread_.start(
      "verbatim-engine", [this] { run(); }, host::LibraryThread::Faults::kOpen);
}

void Engine::watch_link() {
  const auto of_link = parts_.link->descriptors();
  std::vector<int> sockets(of_link.begin(), of_link.end());
  sockets.push_back(parts_.slot.descriptor());
  parts_.sockets.use(sockets);
}

void Engine::stop() noexcept {
  if (thread_.exists()) {
    stop_.store(1);
    futex::wake_all(stop_);
    host::ring(bell_);
    tether_.ring();  // in case the program has closed the bell
    thread_.join();
  }
  close();
}

Engine::~Engine() { stop(); }

void Engine::abandon_in_child() noexcept {
  thread_.forget_in_child();
  close();
}

void Engine::close() noexcept {
  parts_.sockets.close();
  epoll_.close();
  bell_.close();
  tether_.close();
}

void Engine::note_deadline(Instant deadline) noexcept {
  // The engine publishes how long it sleeps before it looks at the timers for the last time, and
  // the caller holds the adapter's lock as the engine did; so a deadline is either seen or rung
  // for.
  const std::int64_t sleeps_until = sleeps_until_.load(std::memory_order_relaxed);
  if (sleeps_until == 0 || deadline.since_start().count() >= sleeps_until) return;
  sleeps_until_.store(deadline.since_start().count(), std::memory_order_relaxed);
  host::ring(bell_);
}

void Engine::note_kept_answers(Instant deadline) noexcept {
  if (deadline - parts_.rest.last() > kSharingLasts) note_deadline(deadline);
}

/// Without the adapter's lock: the engine may be woken too often, and at the beginning of a sleep
/// too late, for once.
void Engine::wake_up_by(Instant at) noexcept {
  if (sleeps_until_.load(std::memory_order_relaxed) > at.since_start().count()) host::ring(bell_);
}

void Engine::note_rest(Instant at) noexcept { wake_up_by(at + 2 * kNapBesideRests); }

void Engine::note_spinners(Instant at) noexcept {
  static thread_local bool has_short_slices = false;
  if (!has_short_slices) host::limit_time_slice(kSpinnersTimeSlice);
  has_short_slices = true;
  spinners_seen_.store(at, std::memory_order_relaxed);
  wake_up_by(at + 2 * kNapBesideSpinners);
}

/// When the engine looks again although nothing wakes it.
Instant Engine::end_of_nap_in_a_crowd(Instant at) const noexcept {
  // Engines that wake up together would leave long times between.
  const auto offset = std::chrono::microseconds(37) * (parts_.slot.number() % 8);
  if (at - spinners_seen_.load(std::memory_order_relaxed) < kSharingLasts) {
    return at + kNapBesideSpinners + offset;
  }
  const bool may_rest = parts_.rest.is_resting() || at - parts_.rest.last() < kSharingLasts;
  return may_rest ? at + kNapBesideRests : Instant::never();
}

void Engine::note_management_news() noexcept {
  if (has_management_news_.exchange(true) || is_in_turn_) return;  // it looks after its turn
  host::ring(bell_);
}

void Engine::deliver_management_news() noexcept {
  if (!has_management_news_.load(std::memory_order_relaxed)) return;
  has_management_news_.store(false);
  parts_.management.deliver_news();
}

bool Engine::was_caller_here(Instant now, Duration within) const noexcept {
  return now.since_start().count() - caller_seen_.load(std::memory_order_relaxed) < within.count();
}

/// The number of turns is limited: a flood must not keep callers from the lock. Returns whether
/// there were packets.
///
/// A caller that was there a moment ago may be about to send something, for instance because it
/// spins on memory that was written just now. Answers wait a little, to leave with it.
bool Engine::serve_absent_caller() noexcept {
  const Instant at = now();
  const bool found = parts_.progress.receive(AdapterProgress::Look::kAtAllAddresses, at);
  if (found && was_caller_here(at, kCallerReturns)) {
    parts_.progress.keep(at);
    return true;
  }
  parts_.progress.serve_owed(now());
  bool finds_more = found;
  for (int turn = 1; turn < 8 && finds_more; ++turn) {
    finds_more = parts_.progress.run(now());
  }
  return found;
}

void Engine::run() noexcept {
  ask_for_prompt_wake_ups();
  int tries = 0;
  while (stop_.load(std::memory_order_relaxed) == 0) {
    // Without the lock: a process that attaches may wait for a thread that needs it.
    if (is_lost_) return end_without_descriptors();
    if (has_news_) take_news();
    if (std::exchange(has_notices_, false)) parts_.handle_notice();
    deliver_management_news();
    const bool only_tries = tries++ < kTriesForTheLock;
    if (only_tries && (is_superfluous() || !parts_.lock.try_lock())) {
      // A caller holds the lock and makes progress. To wait for the lock would slow it down.
      leave_to_callers();
      sleep_until(now() + nap_);
      continue;
    }
    tries = 0;
    if (!only_tries) parts_.lock.lock();
    host::AdapterGuard lock(parts_.lock, std::adopt_lock);
    const Instant deadline = take_turn();
    sleeps_until_.store(deadline.since_start().count(), std::memory_order_relaxed);
    lock.unlock();
    deliver_management_news();
    parts_.homes->detach_abandoned();
    sleep_until(deadline);
  }
}

/// Whether callers do all the work, and the engine was not woken up for something else.
bool Engine::is_superfluous() const noexcept {
  return !parts_.sockets.wakes_engine() && vigilance_ == 0 && !has_rung_ && !has_requests_ &&
         was_caller_here(now(), kCallerPresence);
}

void Engine::take_news() noexcept {
  has_news_ = false;
  parts_.peers.serve();
}

/// Leaves the sockets to the callers for the next sleep, which is longer each time.
void Engine::leave_to_callers() noexcept {
  parts_.sockets.wake_engine(false);
  is_streaming_ = false;
  nap_ = std::min(nap_ * 2, kLongNap);
}

std::uint64_t Engine::packets_moved() const noexcept {
  const link::LinkCounters& counters = parts_.link->counters();
  return counters.packets_received + counters.packets_sent;
}

/// Does all work that there is, and returns how long it may sleep. With the adapter's lock held.
Instant Engine::take_turn() noexcept {
  is_in_turn_ = true;
  sleeps_until_.store(0, std::memory_order_relaxed);
  const Instant at = now();
  const bool interrupts = was_caller_here(at, kInterruption);
  const bool was_watching = parts_.sockets.wakes_engine();
  const bool callers_are_here = was_watching ? interrupts : was_caller_here(at, kCallerPresence);
  Instant nap_ends = Instant::never();
  is_streaming_ = false;
  if (parts_.rest.is_lost(at)) parts_.rest.end(at);
  const bool is_rested_for = parts_.rest.is_resting();
  if (is_rested_for) {
    parts_.progress.run_timers(at);  // packets wake the resting thread
    parts_.progress.serve_owed(at);
    parts_.sockets.wake_engine(true);
  } else if (callers_are_here && vigilance_ == 0) {
    parts_.progress.run_timers(at);
    parts_.progress.serve_owed(at);
    leave_to_callers();
    nap_ends = at + nap_;
  } else {
    const bool had_left = !was_watching;  // packets may have waited: the caller has gone
    const std::uint64_t moved_before = packets_moved();
    const bool found = serve_absent_caller();
    is_streaming_ = packets_moved() - moved_before >= kStreamPackets;
    const bool was_useful = found && !interrupts && (had_left || vigilance_ > 0);
    vigilance_ = was_useful ? kVigilance : std::max(vigilance_ - kUselessWakeUp, 0);
    parts_.sockets.wake_engine(true);
    nap_ = kShortNap;
  }
  if (has_rung_) {
    has_rung_ = false;
    parts_.peers.take_bells();
    parts_.progress.serve_owed(now());
  }
  if (has_requests_) parts_.management.take_forwarded();
  const Instant later = now();
  parts_.progress.flush_due(later);  // no caller may make progress in time
  parts_.management.run_timer(later);
  if (parts_.progress.owes_answers()) nap_ends = std::min(nap_ends, later + kReturnPatience);
  is_in_turn_ = false;
  // Not while a thread rests: that would lower the bell of a link which has just been rung for it.
  const bool waits_for_packets = parts_.sockets.wakes_engine() && !is_rested_for;
  if (waits_for_packets && !parts_.link->prepare_to_wait()) return later;
  return std::min({parts_.progress.next_deadline(), parts_.management.next_deadline(), nap_ends,
                   end_of_nap_in_a_crowd(later)});
}

/// The sender of a stream pays for waking up the receiver with every train: its processor
/// interrupts the receiver's. So in a stream the engine stays awake until the next train should be
/// there, and yields the processor between two looks. If another thread uses the processor then,
/// the engine sleeps for the next second: a thread that is woken up gets the processor back at
/// once. Returns the number of events, as wait() does.
int Engine::look_out(std::span<epoll_event> events, Instant deadline) noexcept {
  Instant at = now();
  if (at < crowd_until_) return 0;
  const Instant end = std::min(deadline, at + kNextOfStream);
  while (at < end) {
    const int count =
        ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
    if (count != 0) return count;
    ::sched_yield();
    const Instant later = now();
    if (later - at > kElsewhere) crowd_until_ = later + kCrowdLasts;
    at = later;
  }
  return 0;
}

/// A wait for the epoll descriptor alone would not end when the program closes the descriptors. So
/// a long wait, after a time without events, waits for the tether as well, which costs one more
/// system call. Returns the number of events.
int Engine::wait(std::span<epoll_event> events, Instant deadline) noexcept {
  const Instant doze_ends = now() + kDoze;
  timespec left = time_until(std::min(deadline, doze_ends));
  int count = wait_for_events(epoll_.number(), events, left);
  if (count != 0 || deadline <= doze_ends) {
    is_lost_ = count < 0 && errno != EINTR;
    return count;
  }
  pollfd polled[] = {{.fd = epoll_.number(), .events = POLLIN, .revents = 0}, tether_.polled()};
  is_lost_ = !epoll_.is_still_own();
  if (is_lost_) return 0;
  left = time_until(deadline);
  (void)::ppoll(polled, std::size(polled), deadline == Instant::never() ? nullptr : &left, nullptr);
  is_lost_ = !tether_.take(polled[1]) || !epoll_.is_still_own();
  if (is_lost_ || polled[0].revents == 0) return 0;
  return ::epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), 0);
}

/// The program has closed the descriptors. Its own files may have their numbers now, so the engine
/// uses none of them any more.
void Engine::end_without_descriptors() noexcept {
  parts_.handle_loss();
  parts_.homes->detach_abandoned();  // of peers that were stopped when the queue pairs failed
  deliver_management_news();
  while (stop_.load() == 0) futex::wait(stop_, 0);
}

void Engine::sleep_until(Instant deadline) noexcept {
  epoll_event events[8];
  int count = is_streaming_ ? look_out(events, deadline) : 0;
  if (count == 0) count = wait(events, deadline);
  has_requests_ = false;
  for (int i = 0; i < count; ++i) {
    std::uint64_t rung;
    const int descriptor = events[i].data.fd;
    if (descriptor == bell_.number()) {
      if (bell_.is_still_own()) (void)!::read(bell_.number(), &rung, sizeof rung);
      has_rung_ = true;
    } else if (descriptor == parts_.network.notices()) {
      has_notices_ = true;
    } else if (descriptor == parts_.management.descriptor()) {
      has_requests_ = true;
    } else if (descriptor != parts_.sockets.descriptor()) {
      has_news_ = true;
    }
  }
}

}  // namespace verbatim::device
