// SPDX-License-Identifier: Apache-2.0
#include "rehome/watch.h"

#include <linux/close_range.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <new>

#include "base/fence.h"
#include "base/own_threads.h"
#include "rehome/mapping_reader.h"

namespace verbatim::rehome {

namespace {

constexpr std::uint64_t kUnmapEvents = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                                       UFFD_FEATURE_PAGEFAULT_FLAG_WP |
                                       UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
constexpr std::uint64_t kArenaEvents = kUnmapEvents | UFFD_FEATURE_EVENT_REMOVE;

/// So often is a call looked for whose event is there, a hundred milliseconds and more in all:
/// between the two lie a few instructions of the calling thread, which may have lost its processor.
constexpr int kLooks = 1000;

/// So often are threads given time to go on, a second and more in all.
constexpr int kWaits = 10'000;

/// So often is waited for a moment in which no thread changes watched mappings.
constexpr int kChangeWaits = 1000;

/// The stack of the monitor: its functions have some 20 KiB of buffers, with a sanitizer more.
constexpr std::size_t kStackOctets = std::size_t{512} << 10;

/// Leaves this thread with a table of descriptors of its own in which only these are open.
bool keep_only(std::array<int, 3> descriptors) noexcept {
  std::ranges::sort(descriptors);
  unsigned first = 0;
  for (const int descriptor : descriptors) {
    const auto number = static_cast<unsigned>(descriptor);
    if (number > first &&
        kernel::call(SYS_close_range, first, number - 1, CLOSE_RANGE_UNSHARE) != 0) {
      return false;
    }
    first = number + 1;
  }
  return kernel::call(SYS_close_range, first, ~0U, CLOSE_RANGE_UNSHARE) == 0;
}

void nap() noexcept {
  const timespec time{.tv_sec = 0, .tv_nsec = 50'000};
  (void)::nanosleep(&time, nullptr);
}

}  // namespace

Moved Watch::start() noexcept {
  const std::lock_guard lock(mutex_);
  if (!has_started_) {
    has_started_ = true;
    outcome_ = launch();
    if (!outcome_) {
      arena_faults_.close();
      other_faults_.close();
    }
  }
  return outcome_;
}

Moved Watch::launch() noexcept {
  if (!arena_.is_open()) return Why::kNoMemory;
  if (const Moved opened = arena_faults_.open(kArenaEvents); !opened) return opened;
  if (const Moved opened = other_faults_.open(kUnmapEvents); !opened) return opened;
  ready_.store(0);
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return Why::kNoMemory;
  (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  (void)::pthread_attr_setstacksize(&attributes, kStackOctets);
  pthread_t thread{};
  int failed = 0;
  {
    // Not those that the C library uses itself: setuid(2) waits until every thread has had one.
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
  // Descriptors that the program opens and closes later do not reach the monitor's table.
  while (ready_.load(std::memory_order_acquire) == 0) nap();
  if (ready_.load() != 1) return Why::kNoDescriptor;
  return test();
}

/// Empties a page of the arena as a program would: does the monitor find the call, and is the page
/// empty when the call returns?
Moved Watch::test() noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t offset = arena_.spare_offset(page);
  const long at =
      kernel::map(0, page, PROT_READ | PROT_WRITE, MAP_SHARED, arena_.descriptor(), offset);
  if (kernel::failed(at)) return Why::kNoMemory;
  const auto begin = static_cast<std::uintptr_t>(at);
  const Range pages{.begin = begin, .end = begin + page};
  Moved works = add_arena_pages(pages);
  if (works) {
    auto* const octet = std::bit_cast<volatile char*>(begin);
    *octet = 1;
    const std::uint32_t before = found_.load();
    const bool is_empty = kernel::advise(begin, page, MADV_DONTNEED) == 0 && *octet == 0;
    wait_until_idle();
    if (!is_empty || found_.load() == before) works = Why::kNoGuard;
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
  const bool is_apart = keep_only({arena_events, other_events, arena_.descriptor()});
  ready_.store(is_apart ? 1 : 2, std::memory_order_release);
  if (!is_apart) return;
  std::array<Source, 2> sources;
  sources[0].descriptor = arena_events;
  sources[1].descriptor = other_events;
  for (;;) {
    std::array<pollfd, 2> events{pollfd{.fd = arena_events, .events = POLLIN, .revents = 0},
                                 pollfd{.fd = other_events, .events = POLLIN, .revents = 0}};
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if ((events[i].revents & POLLIN) != 0) handle_event(sources[i]);
    }
  }
}

/// First what must be done before the waiting calls return, then the event, which lets one of them
/// go on, then what must not be done before it is certain that the pages are gone.
///
/// The kernel gives out the oldest event. Its call must have been found. It is visible when the
/// search begins, unless the last reading has woken its thread, which is awaited. A call whose
/// thread was visited before its event came can be older than one that was found, so there is a
/// second search.
void Watch::handle_event(Source& source) noexcept {
  if (source.is_contended) {
    for (int waits = 0; waits < kWaits && !source.clocks.have_all_gone_on(); ++waits) nap();
  }
  for (int looks = 0; looks < kLooks && act_for_waiting_calls().is_empty(); ++looks) nap();
  const ChangingCalls calls = act_for_waiting_calls();
  is_busy_.store(true);
  read_event(source.descriptor, calls);
  is_busy_.store(false);
  pollfd left{.fd = source.descriptor, .events = POLLIN, .revents = 0};
  source.is_contended = ::poll(&left, 1, 0) > 0;
  if (source.is_contended) source.clocks.note();
}

ChangingCalls Watch::act_for_waiting_calls() noexcept {
  const ChangingCalls calls = read_changing_calls();
  for (const ChangingCall& call : calls) {
    if (call.change == Change::kEmpties) {
      empty(call.range);
    } else {
      (void)close_regions(call.range);
    }
  }
  return calls;
}

/// The caller has acted for these calls.
void Watch::read_event(int descriptor, const ChangingCalls& calls) noexcept {
  uffd_msg message{};
  if (kernel::call(SYS_read, descriptor, &message, sizeof message) != sizeof message) return;
  if (message.event == UFFD_EVENT_REMAP) {
    handle_departure({.range = {.begin = message.arg.remap.from,
                                .end = message.arg.remap.from + message.arg.remap.len},
                      .is_moved_away = true});
    return;
  }
  const Range range{.begin = message.arg.remove.start, .end = message.arg.remove.end};
  const bool empties = message.event == UFFD_EVENT_REMOVE;
  // The end of an mremap(2) is told as an unmapping as well: its pages live on.
  const bool is_moved_away = calls.covers(Change::kMovesAway, range);
  const bool is_found =
      is_moved_away || calls.covers(empties ? Change::kEmpties : Change::kUnmaps, range);
  (is_found ? found_ : late_).fetch_add(1);
  if (message.event == UFFD_EVENT_UNMAP) {
    handle_departure({.range = range, .is_moved_away = is_moved_away});
  } else if (empties && !is_found) {
    empty(range);  // a call that cannot be seen, as one of io_uring: a moment late
  }
}

/// Returns whether any region has a page there.
bool Watch::close_regions(Range range) noexcept {
  bool is_needed = false;
  unmappings_.fetch_add(1);
  full_fence();
  const std::lock_guard lock(listeners_mutex_);
  for (const Listener& listener : listeners_) {
    if (listener.handle_unmap == nullptr) continue;
    is_needed |= listener.handle_unmap(listener.context, range);
  }
  return is_needed;
}

/// The pages of the arena that are mapped there become holes, which read as zeroes.
void Watch::empty(Range range) noexcept {
  (void)for_each_mapping(range.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= range.end) return false;
    if (!arena_.is_mapped_by(mapping)) return true;
    const Range part = common(mapping.range, range);
    if (mapping.shared) {
      punch(arena_.descriptor(), mapping.offset + (part.begin - mapping.range.begin),
            part.octets());
      return true;
    }
    // A private mapping shows the arena's page when its own is gone. Memory without a file shows
    // zeroes. It must not be watched: the monitor would wait for itself.
    arena_faults_.unwatch(part);
    const int protection = (mapping.readable ? PROT_READ : 0) | (mapping.writable ? PROT_WRITE : 0);
    (void)kernel::map(part.begin, part.octets(), protection,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return true;
  });
}

/// Pages of the arena that no region needs are freed at once.
void Watch::handle_departure(const Departure& departure) noexcept {
  const bool is_needed = close_regions(departure.range);
  const std::uint64_t put = departures_put_.load(std::memory_order_relaxed);
  if (put - departures_taken_.load(std::memory_order_acquire) == kDeparturesMax) {
    missed_.store(true, std::memory_order_release);
  } else {
    departures_[put % kDeparturesMax] = departure;
    departures_put_.store(put + 1, std::memory_order_release);
  }
  if (is_needed || departure.is_moved_away || keeps_pages_.load()) return;
  if (!arena_.has_place_for(departure.range)) return;
  punch(arena_.descriptor(), arena_.offset_of(departure.range.begin), departure.range.octets());
}

bool Watch::take_departure(Departure& departure, bool& has_missed) noexcept {
  if (missed_.exchange(false, std::memory_order_acq_rel)) has_missed = true;
  const std::uint64_t taken = departures_taken_.load(std::memory_order_relaxed);
  if (taken == departures_put_.load(std::memory_order_acquire)) return false;
  departure = departures_[taken % kDeparturesMax];
  departures_taken_.store(taken + 1, std::memory_order_release);
  return true;
}

Watch::Moment Watch::now() const noexcept {
  wait_for_changes();
  return {.unmappings = unmappings_.load(), .departures = departures_put_.load()};
}

bool Watch::has_unmapped_since(const Moment& moment, Range range) const noexcept {
  full_fence();
  if (unmappings_.load() == moment.unmappings) return false;
  wait_for_changes();
  const std::uint64_t put = departures_put_.load(std::memory_order_acquire);
  if (missed_.load() || put - moment.departures >= kDeparturesMax) return true;  // perhaps
  for (std::uint64_t i = moment.departures; i < put; ++i) {
    if (!common(departures_[i % kDeparturesMax].range, range).empty()) return true;
  }
  return false;
}

void Watch::wait_until_idle() const noexcept {
  while (is_busy_.load()) nap();
}

/// An event counts as a change until it is read, and the monitor is busy before it reads.
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

Moved Watch::add_other_pages(Range pages) noexcept {
  return other_faults_.watch(pages, UFFDIO_REGISTER_MODE_WP);
}

void Watch::remove_arena_pages(Range pages) noexcept { arena_faults_.unwatch(pages); }

void Watch::remove_other_pages(Range pages) noexcept { other_faults_.unwatch(pages); }

bool Watch::add_listener(const Listener& listener) noexcept {
  const std::lock_guard lock(listeners_mutex_);
  for (Listener& place : listeners_) {
    if (place.handle_unmap != nullptr) continue;
    place = listener;
    return true;
  }
  return false;
}

void Watch::remove_listener(const Listener& listener) noexcept {
  const std::lock_guard lock(listeners_mutex_);
  for (Listener& place : listeners_) {
    if (place.context == listener.context) place = {};
  }
}

void Watch::forget_in_child() noexcept {
  const bool was_running = has_started_ && outcome_.ok();
  if (was_running) {
    arena_faults_.close();
    other_faults_.close();
  }
  new (&mutex_) std::mutex;
  new (&listeners_mutex_) std::mutex;
  listeners_ = {};
  has_started_ = false;
  departures_put_.store(0);
  departures_taken_.store(0);
  unmappings_.store(0);
  missed_.store(false);
  keeps_pages_.store(false);
  is_busy_.store(false);
}

}  // namespace verbatim::rehome
