// SPDX-License-Identifier: Apache-2.0
#include "rehome/watch.h"

#include <linux/close_range.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <new>

#include "base/fence.h"
#include "base/own_threads.h"
#include "base/pointer.h"
#include "rehome/mapping_reader.h"
#include "rehome/maps_file.h"
#include "rehome/survey.h"

namespace verbatim::rehome {

namespace {

constexpr std::uint64_t kUnmapEvents = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                                       UFFD_FEATURE_PAGEFAULT_FLAG_WP |
                                       UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
constexpr std::uint64_t kArenaEvents = kUnmapEvents | UFFD_FEATURE_EVENT_REMOVE;

/// How often a call is searched for whose event exists, some milliseconds in all. The call is
/// visible at once, unless the kernel does not show it: calls of io_uring, or of a process that
/// others may not trace.
constexpr int kLooks = 40;

/// How often the monitor sleeps to let threads make progress, ten seconds and more in all.
constexpr int kWaits = 100'000;

/// How often wait_for_changes() looks for a moment in which no thread changes watched mappings.
constexpr int kChangeWaits = 1000;

/// The least stack of the monitor: its functions have some 20 KiB of buffers, more with a
/// sanitizer. Usually it has that of all threads, because the program's thread-local storage is in
/// it, too.
constexpr std::size_t kStackOctets = std::size_t{512} << 10;

/// Gives this thread a table of descriptors of its own in which only these are open.
bool keep_only(std::array<int, 4> descriptors) noexcept {
  std::ranges::sort(descriptors);
  unsigned first = 0;
  for (const int descriptor : descriptors) {
    if (descriptor < 0) continue;
    const auto number = static_cast<unsigned>(descriptor);
    if (number > first &&
        kernel::call(SYS_close_range, first, number - 1, CLOSE_RANGE_UNSHARE) != 0) {
      return false;
    }
    first = number + 1;
  }
  return kernel::call(SYS_close_range, first, ~0U, CLOSE_RANGE_UNSHARE) == 0;
}

bool add_to_epoll(int epoll, int descriptor, std::uint32_t number) noexcept {
  epoll_event wanted{.events = EPOLLIN, .data = {}};
  wanted.data.u32 = number;
  return kernel::call(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, descriptor, &wanted) == 0;
}

void nap() noexcept {
  const timespec time{.tv_sec = 0, .tv_nsec = 50'000};
  (void)::nanosleep(&time, nullptr);
}

}  // namespace

void Watch::prepare() noexcept {
  const LockGuard lock(mutex_);
  if (!has_started_ && arena_.is_open()) spares_.take(arena_);
}

Moved Watch::start() noexcept {
  const LockGuard lock(mutex_);
  if (!has_started_) {
    has_started_ = true;
    outcome_ = launch();
    const bool lacks_descriptors = !outcome_ && outcome_.error() == Why::kNoDescriptor;
    const bool has_spares = spares_.give_up(arena_);
    if (lacks_descriptors && has_spares) {
      arena_faults_.close();
      other_faults_.close();
      outcome_ = launch();
    }
    if (!outcome_) {
      arena_faults_.close();
      other_faults_.close();
      // Descriptors or memory may be available at the next registration.
      has_started_ = outcome_.error() != Why::kNoDescriptor && outcome_.error() != Why::kNoMemory;
    }
  }
  return outcome_;
}

Moved Watch::launch() noexcept {
  if (!arena_.is_open()) return Why::kNoMemory;
  MapsFile::of_process().open();
  if (const Moved opened = arena_faults_.open(kArenaEvents); !opened) return opened;
  if (const Moved opened = other_faults_.open(kUnmapEvents); !opened) return opened;
  ready_.store(0);
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return Why::kNoMemory;
  (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  std::size_t stack_octets = 0;
  (void)::pthread_attr_getstacksize(&attributes, &stack_octets);
  if (stack_octets < kStackOctets) (void)::pthread_attr_setstacksize(&attributes, kStackOctets);
  pthread_t thread{};
  int failed = 0;
  {
    // All but the signals that the C library uses itself: setuid(2) waits until each thread gets
    // one.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    OwnThread::announce();
    failed = ::pthread_create(&thread, &attributes, &Watch::run, this);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  (void)::pthread_attr_destroy(&attributes);
  if (failed != 0) return Why::kNoMemory;
  // From here on, descriptors that the program opens and closes do not affect the monitor's table.
  while (ready_.load(std::memory_order_acquire) == 0) nap();
  if (ready_.load() != 1) return Why::kNoDescriptor;
  test_outcome_ = test();
  return Ok{};
}

Moved Watch::acts_in_time() noexcept {
  const LockGuard lock(mutex_);
  if (!test_outcome_ && test_outcome_.error() == Why::kNoMemory) test_outcome_ = test();
  return test_outcome_;
}

/// Empties a page of the arena as a program would. Succeeds if the monitor finds the call, and the
/// page is empty when the call returns.
Moved Watch::test() noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t offset = arena_.spare_offset(page);
  const long at =
      kernel::map(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, arena_.descriptor(), offset);
  if (kernel::failed(at)) return Why::kNoMemory;
  const auto begin = static_cast<std::uintptr_t>(at);
  const Range pages{.begin = begin, .end = begin + page};
  // After mlockall(MCL_FUTURE) new memory is locked, and locked memory is not emptied.
  (void)kernel::call(SYS_munlock, begin, page);
  searches_long_.store(true);
  Moved works = add_arena_pages(pages);
  if (works) {
    auto* const octet = pointer_as<volatile char>(begin);
    *octet = 1;
    const std::uint32_t before = found_.load();
    const bool is_empty = kernel::advise(begin, page, MADV_DONTNEED) == 0 && *octet == 0;
    wait_until_idle();
    if (!is_empty || found_.load() == before) works = Why::kNoGuard;
    searches_long_.store(works.ok());
  }
  kernel::unmap(begin, page);
  wait_until_idle();
  punch(arena_.descriptor(), offset, page);
  return works;
}

void* Watch::run(void* watch) {
  const OwnThread own;
  (void)::prctl(PR_SET_NAME, "verbatim-memory");
  static_cast<Watch*>(watch)->monitor();
  return nullptr;
}

void Watch::monitor() noexcept {
  const int arena_events = arena_faults_.number();
  const int other_events = other_faults_.number();
  const bool is_apart =
      keep_only({arena_events, other_events, arena_.descriptor(), MapsFile::of_process().number()});
  // Not poll(2), which fails when the limit of descriptors is below two.
  const auto epoll = static_cast<int>(kernel::call(SYS_epoll_create1, EPOLL_CLOEXEC));
  const bool is_ready =
      is_apart && add_to_epoll(epoll, arena_events, 0) && add_to_epoll(epoll, other_events, 1);
  if (is_ready) put_bell();
  monitor_.store(static_cast<pid_t>(kernel::call(SYS_gettid)));
  ready_.store(is_ready ? 1 : 2, std::memory_order_release);
  if (!is_ready) return;
  std::array<Source, 2> sources;
  sources[0].faults = &arena_faults_;
  sources[1].faults = &other_faults_;
  for (;;) {
    epoll_event event{};
    if (kernel::call(SYS_epoll_pwait, epoll, &event, 1, -1, 0, 8) == 1) {
      handle_event(sources[event.data.u32]);
    }
    execute_command();
  }
}

void Watch::put_bell() noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const long at = kernel::map(0, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kernel::failed(at)) return;
  const auto begin = static_cast<std::uintptr_t>(at);
  if (add_other_pages({.begin = begin, .end = begin + page})) {
    bell_.store(begin);
  } else {
    kernel::unmap(begin, page);
  }
}

/// Nothing but the caller's own event may follow the change of the mapping, so the pages are not
/// watched during it.
void Watch::execute_command() noexcept {
  if (command_.state.load(std::memory_order_acquire) != Command::State::kWanted) return;
  const PageMover::Job& job = command_.job;
  if (command_.kind == Command::Kind::kWatchOtherPages) {
    command_.has_succeeded = add_other_pages(job.pages).ok();
  } else {
    command_.has_succeeded = arena_faults_.unwatch(job.pages);
    if (command_.has_succeeded) {
      if (make_private(arena_.descriptor(), job)) (void)copy_all_pages(job);
      (void)add_arena_pages(job.pages);
    }
  }
  if (bell_.load() == 0) put_bell();
  command_.state.store(Command::State::kDone, std::memory_order_release);
}

bool Watch::make_private_copies(const PageMover::Job& job) noexcept {
  return command(Command::Kind::kMakePrivateCopies, job);
}

/// False when the monitor cannot be told, or cannot do it. One caller at a time.
bool Watch::command(Command::Kind kind, const PageMover::Job& job) noexcept {
  const std::uintptr_t bell = bell_.exchange(0);
  if (bell == 0) return false;
  command_.kind = kind;
  command_.job = job;
  command_.state.store(Command::State::kWanted, std::memory_order_release);
  kernel::unmap(bell, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
  while (command_.state.load(std::memory_order_acquire) != Command::State::kDone) nap();
  command_.state.store(Command::State::kNone, std::memory_order_relaxed);
  return command_.has_succeeded;
}

long Watch::open_arena() const noexcept {
  const pid_t monitor = monitor_.load();
  if (monitor == 0) return -EBADF;
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/task/%d/fd/%d", static_cast<int>(monitor),
                arena_.descriptor());
  return kernel::open_file(path.data(), O_RDWR);
}

/// First does what must be done before the waiting calls return. Then reads the event, which lets
/// one of them go on. Then does what must wait until the pages are certainly gone.
///
/// The kernel returns the oldest event, so the call of that one must have been found. It is visible
/// when the search begins, unless the last reading has woken its thread; this function waits for
/// such threads. The search may pass a thread before the thread's event exists, and that event may
/// be older than the event of a call that was found. So there is a second search.
void Watch::handle_event(Source& source) noexcept {
  if (source.is_contended) {
    for (int waits = 0; waits < kWaits && !source.clocks.have_all_gone_on(); ++waits) nap();
  }
  const int looks_max = searches_long_.load() ? kLooks : 1;
  for (int looks = 0; looks < looks_max && act_for_waiting_calls().is_empty(); ++looks) nap();
  const ChangingCalls calls = act_for_waiting_calls();
  is_busy_.store(true);
  read_event(source.faults->number(), calls);
  is_busy_.store(false);
  source.is_contended = source.faults->has_events();
  if (source.is_contended) source.clocks.note();
}

ChangingCalls Watch::act_for_waiting_calls() noexcept {
  const ChangingCalls calls = read_changing_calls();
  for (const ChangingCall& call : calls) {
    switch (call.change) {
      case Change::kEmpties:
        empty(call.range, call.includes_locked);
        break;
      case Change::kMovesAway:
      case Change::kMovesAwayAndStays:
        has_moved_away_.store(true);
        (void)close_regions(call.range);
        if (call.change == Change::kMovesAwayAndStays) leave_empty_memory(call.range);
        break;
      case Change::kUnmaps:
        close_unmapped(call.range);
        break;
    }
  }
  return calls;
}

/// Frees memory of the arena that no region needs at once. If pages were never moved away, the
/// offset of a page follows from its address.
void Watch::close_unmapped(Range range) noexcept {
  const bool is_needed = close_regions(range);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  (void)for_each_mapping(range.begin - page, [&](const Mapping& mapping) {
    // mremap(2) would let it grow over pages of the arena that belong to other addresses.
    const bool is_neighbour = mapping.range.end == range.begin && arena_.is_mapped_by(mapping);
    if (is_neighbour) forbid_growth(mapping.range, page);
    return false;
  });
  if (is_needed || has_moved_away_.load() || keeps_pages_.load()) return;
  if (!arena_.has_place_for(range)) return;
  punch(arena_.descriptor(), arena_.offset_of(range.begin), range.octets());
}

/// For MREMAP_DONTUNMAP: the old range of private memory is empty afterwards, but a mapping of the
/// arena shows the same pages as the new one. So it is replaced.
void Watch::leave_empty_memory(Range range) noexcept {
  (void)for_each_mapping(range.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= range.end) return false;
    if (arena_.is_mapped_by(mapping))
      replace_by_empty_memory(mapping, common(mapping.range, range));
    return true;
  });
}

/// The new memory is watched as memory outside the arena, because regions may still be there.
void Watch::replace_by_empty_memory(const Mapping& mapping, Range part) noexcept {
  // It must not be watched during the change: the monitor would wait for itself.
  (void)arena_faults_.unwatch(part);
  (void)kernel::map(part.begin, part.octets(), protection_of(mapping),
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  (void)add_other_pages(part);
}

/// The caller has already handled these calls.
void Watch::read_event(int descriptor, const ChangingCalls& calls) noexcept {
  uffd_msg message{};
  if (kernel::call(SYS_read, descriptor, &message, sizeof message) != sizeof message) return;
  if (message.event == UFFD_EVENT_REMAP) {
    has_moved_away_.store(true);
    handle_departure({.range = {.begin = message.arg.remap.from,
                                .end = message.arg.remap.from + message.arg.remap.len},
                      .is_moved_away = true});
    return;
  }
  const Range range{.begin = message.arg.remove.start, .end = message.arg.remove.end};
  const bool empties = message.event == UFFD_EVENT_REMOVE;
  // The kernel also reports the source of an mremap(2) as unmapped, but its pages still exist.
  const bool is_moved_away =
      calls.covers(Change::kMovesAway, range) || calls.covers(Change::kMovesAwayAndStays, range);
  const bool is_found =
      is_moved_away || calls.covers(empties ? Change::kEmpties : Change::kUnmaps, range);
  (is_found ? found_ : late_).fetch_add(1);
  if (message.event == UFFD_EVENT_UNMAP) {
    handle_departure({.range = range, .is_moved_away = is_moved_away});
  } else if (empties && !is_found) {
    empty(range, false);  // a call that is not visible, such as one of io_uring: a moment late
  }
}

/// Returns whether any region has a page there.
bool Watch::close_regions(Range range) noexcept {
  bool is_needed = false;
  unmappings_.fetch_add(1);
  full_fence();  // pairs with the one in may_have_unmapped_since()
  const LockGuard lock(observers_mutex_);
  for (const Observer& observer : observers_) {
    if (observer.handle_unmap == nullptr) continue;
    is_needed |= observer.handle_unmap(observer.context, range);
  }
  return is_needed;
}

/// Makes the pages of the arena that are mapped there holes, which read as zeroes. The kernel ends
/// a call at the first locked mapping, and leaves that one and the rest unchanged.
void Watch::empty(Range range, bool includes_locked) noexcept {
  (void)for_each_mapping(range.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= range.end) return false;
    const Range part = common(mapping.range, range);
    if (!includes_locked && is_locked(part.begin)) return false;
    if (arena_.is_mapped_by(mapping)) empty_mapping(mapping, part);
    return true;
  });
}

void Watch::empty_mapping(const Mapping& mapping, Range part) noexcept {
  if (mapping.shared) {
    punch(arena_.descriptor(), mapping.offset + (part.begin - mapping.range.begin), part.octets());
    return;
  }
  // When the page of a private mapping is dropped, the mapping shows the arena's page. Anonymous
  // memory shows zeroes.
  replace_by_empty_memory(mapping, part);
}

void Watch::handle_departure(const Departure& departure) noexcept {
  (void)close_regions(departure.range);
  departures_.put(departure);
}

Watch::Moment Watch::now() const noexcept {
  wait_for_changes();
  return {.unmappings = unmappings_.load(), .departures = departures_.now()};
}

bool Watch::may_have_unmapped_since(const Moment& moment) const noexcept {
  full_fence();  // pairs with the one in close_regions()
  return unmappings_.load() != moment.unmappings;
}

bool Watch::has_unmapped_since(const Moment& moment, Range range) const noexcept {
  if (!may_have_unmapped_since(moment)) return false;
  wait_for_changes();
  return departures_.may_have_left_since(moment.departures, range);
}

void Watch::wait_until_idle() const noexcept {
  while (is_busy_.load()) nap();
}

/// has_changes() is true until the event is read, and is_busy_ is set before it is read.
void Watch::wait_for_changes() const noexcept {
  const auto has_changes = [&] {
    return arena_faults_.has_changes() || other_faults_.has_changes();
  };
  for (int waits = 0; waits < kChangeWaits && has_changes(); ++waits) nap();
  wait_until_idle();
}

Moved Watch::add_arena_pages(Range pages) noexcept {
  return arena_faults_.watch(pages, UFFDIO_REGISTER_MODE_WP);
}

/// The monitor has descriptors of its own, which the program cannot close.
Moved Watch::add_other_pages(Range pages) noexcept {
  const Moved watched = other_faults_.watch(pages, UFFDIO_REGISTER_MODE_WP);
  if (watched || other_faults_.is_own()) return watched;
  const bool is_done = command(Command::Kind::kWatchOtherPages, {.pages = pages});
  return is_done ? Moved(Ok{}) : watched;
}

bool Watch::remove_arena_pages(Range pages) noexcept { return arena_faults_.unwatch(pages); }

void Watch::remove_other_pages(Range pages) noexcept { (void)other_faults_.unwatch(pages); }

bool Watch::add_observer(const Observer& observer) noexcept {
  const LockGuard lock(observers_mutex_);
  for (Observer& place : observers_) {
    if (place.handle_unmap != nullptr) continue;
    place = observer;
    return true;
  }
  return false;
}

void Watch::remove_observer(const Observer& observer) noexcept {
  const LockGuard lock(observers_mutex_);
  for (Observer& place : observers_) {
    if (place.context == observer.context) place = {};
  }
}

void Watch::forget_in_child() noexcept {
  const bool was_running = has_started_ && outcome_.ok();
  if (was_running) {
    arena_faults_.close();
    other_faults_.close();
  }
  new (&mutex_) Mutex;
  new (&observers_mutex_) Mutex;
  observers_ = {};
  bell_.store(0);
  command_.state.store(Command::State::kNone);
  has_started_ = false;
  departures_.forget();
  unmappings_.store(0);
  keeps_pages_.store(false);
  has_moved_away_.store(false);
  is_busy_.store(false);
  monitor_.store(0);
  searches_long_.store(true);
  (void)spares_.give_up(arena_);
}

}  // namespace verbatim::rehome
