// SPDX-License-Identifier: Apache-2.0
// Rehoming and fork(2). A mapping of the arena is shared between parent and child, but a child must
// have memory of its own with the contents of the parent's at the fork.
#include <algorithm>
#include <new>
#include <numeric>

#include "base/pointer.h"
#include "rehome/mapping_reader.h"
#include "rehome/pinning.h"
#include "rehome/rehoming.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

/// Up to this size a child copies the memory that it has inherited, and MADV_DONTNEED gives it
/// zeroes. Larger memory stays a private mapping of the arena, where MADV_DONTNEED restores the
/// contents from the fork: a child that only executes another program must not wait for gigabytes.
constexpr std::size_t kCopiedOctetsMax = std::size_t{64} << 20;

constexpr Range kEverywhere{.begin = 0, .end = ~std::uintptr_t{0}};

/// More than a process may have (vm.max_map_count is 65530 by default).
constexpr std::size_t kMappingsMax = std::size_t{1} << 18;

/// Copies whole pages, also where the program has told a sanitizer that they must not be read.
__attribute__((no_sanitize("address"))) void copy_words(std::uintptr_t to, std::uintptr_t from,
                                                        std::size_t octets) noexcept {
  auto* const target = pointer_as<volatile std::uint64_t>(to);
  const auto* const source = pointer_as<const volatile std::uint64_t>(from);
  for (std::size_t i = 0; i < octets / sizeof *target; ++i) target[i] = source[i];
}

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// In the child, which has no memory there: copies pages of the arena. False when it has memory
/// there, because another thread unmapped the range before the fork and mapped other memory.
bool fill_hole(int file, const PageMover::Job& job) noexcept {
  const std::size_t octets = job.pages.octets();
  const long at = kernel::map(job.pages.begin, octets, PROT_READ | PROT_WRITE,
                              kAnonymous | MAP_FIXED_NOREPLACE, -1, 0);
  if (kernel::failed(at)) return false;
  // Linux before 4.17 does not know the flag and may choose another address.
  if (static_cast<std::uintptr_t>(at) != job.pages.begin) {
    kernel::unmap(static_cast<std::uintptr_t>(at), octets);
    return false;
  }
  if (!copy_out(file, job.offset, job.pages).ok() ||
      kernel::call(SYS_mprotect, job.pages.begin, octets, job.protection) != 0) {
    kernel::unmap(job.pages.begin, octets);
  }
  return true;
}

/// In the child: replaces a private mapping of the arena by anonymous memory, because after
/// MADV_DONTNEED the mapping would show the arena's page.
void replace_private_mapping(const PageMover::Job& job) noexcept {
  const std::size_t octets = job.pages.octets();
  const long at = kernel::map(0, octets, PROT_READ | PROT_WRITE, kAnonymous, -1, 0);
  if (kernel::failed(at)) return;
  const auto begin = static_cast<std::uintptr_t>(at);
  if (kernel::call(SYS_mprotect, job.pages.begin, octets, PROT_READ) == 0) {
    copy_words(begin, job.pages.begin, octets);
    if (kernel::call(SYS_mprotect, begin, octets, job.protection) == 0 &&
        !kernel::failed(kernel::move(begin, job.pages.begin, octets))) {
      return;
    }
    (void)kernel::call(SYS_mprotect, job.pages.begin, octets, job.protection);
  }
  kernel::unmap(begin, octets);
}

}  // namespace

/// The mappings of the arena in a range, also those that are not at their own addresses.
template <typename Visit>
bool Rehoming::for_each_arena_mapping(Range where, Visit&& visit) const {
  const long answer = for_each_mapping(where.begin, [&](const Mapping& mapping) {
    if (mapping.range.begin >= where.end) return false;
    if (!arena_.is_mapped_by(mapping)) return true;
    const Range pages = common(mapping.range, where);
    visit(Inherited{.job = {.pages = pages,
                            .offset = mapping.offset + (pages.begin - mapping.range.begin),
                            .protection = protection_of(mapping)},
                    .is_private = !mapping.shared});
    return true;
  });
  return answer == 0;
}

void Rehoming::lock_for_fork() noexcept { mutex_.lock(); }

void Rehoming::note_inheritance(Range where, InheritanceTable& table, bool with_registered) {
  // Without `with_registered` the caller has the lock.
  (void)for_each_arena_mapping(where, [&](const Inherited& mapping) VB_UNCHECKED_LOCKING {
    if (with_registered) return table.push_back(mapping);
    runs_.for_each_uncounted(mapping.job.pages, [&](Range part) {
      Inherited noted = mapping;
      noted.job.pages = part;
      noted.job.offset += part.begin - mapping.job.pages.begin;
      table.push_back(noted);
    });
  });
}

bool Rehoming::is_registered(Range pages) const {
  const auto runs = runs_.within(pages);
  return std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.count > 0; });
}

/// Other threads may have unmapped parts of it meanwhile, and may have mapped other memory there.
void Rehoming::part_from_child(Range where) {
  // The analysis does not see that it is called here and now, with the caller's lock.
  (void)for_each_arena_mapping(where, [&](const Inherited& mapping) VB_UNCHECKED_LOCKING {
    if (mapping.is_private) return;
    const PageMover::Job& job = mapping.job;
    (void)watch_.remove_arena_pages(job.pages);  // keep_pages_of_children() was called
    (void)make_private(fork_file_.number(), job);
    (void)watch_.add_arena_pages(job.pages);
    (void)runs_.remove(job.pages);
    (void)quarantined_.remove(job.pages);
    quarantined_.insert({.range = job.pages});
  });
}

/// In the child, which has one thread. The table contains the mappings of the parent just before
/// the fork.
void Rehoming::take_inheritance(const Inherited& mapping, int file) {
  if (mapping.is_private) {
    const auto replace = [](const Inherited& left) { replace_private_mapping(left.job); };
    if (!for_each_arena_mapping(mapping.job.pages, replace)) replace(mapping);
    return;
  }
  if (fill_hole(file, mapping.job)) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  PageMover::Job one = mapping.job;
  for (std::uintptr_t at = mapping.job.pages.begin; at < mapping.job.pages.end; at += page) {
    one.pages = {.begin = at, .end = at + page};
    one.offset = mapping.job.offset + (at - mapping.job.pages.begin);
    (void)fill_hole(file, one);
  }
}

Rehoming::ForkMode Rehoming::fork_mode() noexcept {
  learn_departures();
  forked_.clear();
  if (!arena_.is_open() || !forked_.open(kMappingsMax)) return ForkMode::kNothing;
  // After ibv_fork_init(3) a child has no memory where regions are, as with hardware.
  const auto note = [&](Range where) VB_REQUIRES(mutex_) {
    note_inheritance(where, forked_, !config_.dont_fork);
  };
  if (has_moved_away_) {
    note(kEverywhere);
  } else {
    for (const Run& run : runs_.runs()) {
      if (!run.is_lost) note(run.range);
    }
    for (const Run& run : quarantined_.runs()) note(run.range);
  }
  if (forked_.empty() || !fork_file_.open(arena_, watch_)) return ForkMode::kNothing;
  // A store to a private mapping would copy the page, and the kernel would keep the pinned one.
  return may_have_pinned_pages() ? ForkMode::kCopies : ForkMode::kPrivate;
}

void Rehoming::prepare_fork(ForkMode mode) noexcept {
  fork_ = mode;
  if (mode == ForkMode::kCopies) copying_.prepare();
  if (mode != ForkMode::kPrivate) return;
  if (!config_.dont_fork) partings_.fetch_add(1);
  watch_.keep_pages_of_children();
  for (Inherited& mapping : forked_) {
    if (!mapping.is_private) part_from_child(mapping.job.pages);
    mapping.is_private = true;
  }
}

void Rehoming::after_fork_in_parent() noexcept {
  copying_.wait_in_parent();
  fork_file_.close();
  mutex_.unlock();
}

void Rehoming::take_all(const InheritanceTable& table, int file) {
  const std::size_t octets = std::accumulate(
      table.begin(), table.end(), std::size_t{0},
      [](std::size_t sum, const Inherited& each) { return sum + each.job.pages.octets(); });
  for (const Inherited& mapping : table) {
    if (mapping.is_private && octets > kCopiedOctetsMax) continue;
    take_inheritance(mapping, file);
  }
}

void Rehoming::after_fork_in_child() noexcept {
  MapsFile::of_process().forget_in_child();
  if (fork_ != ForkMode::kNothing) take_all(forked_, fork_file_.number());
  fork_file_.close();
  copying_.finish_in_child();
  forked_.clear();
  runs_.clear();
  quarantined_.clear();
  watched_.clear();
  has_moved_away_ = false;
  mover_.forget_in_child();
  watch_.forget_in_child();
  arena_.leave();
  mutex_.unlock();
}

// ---- In the middle of a call ----

namespace {

/// Gives up after a while: another thread may hold the lock and wait for a lock of this thread.
bool lock_for_a_while(Mutex& mutex) noexcept VB_TRY_ACQUIRE(true, mutex) {
  constexpr int kTries = 100;
  const timespec hundred_microseconds{.tv_sec = 0, .tv_nsec = 100'000};
  for (int tries = 0; tries < kTries; ++tries) {
    if (mutex.try_lock()) return true;
    (void)kernel::call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &hundred_microseconds, 0);
  }
  return false;
}

}  // namespace

/// Pages move only while the program has one thread, with its signals blocked. So no page is moving
/// now, and the mappings show which have moved. Which of them are registered is known only under
/// the lock. Without the lock the child inherits also those that ibv_fork_init(3) excludes.
void Rehoming::prepare_fork_amid_call() noexcept {
  amid_call_.lock();
  forked_amid_call_.clear();
  if (!arena_.is_open() || !forked_amid_call_.open(kMappingsMax)) return;
  const bool is_locked = config_.dont_fork && lock_for_a_while(mutex_);
  note_inheritance(kEverywhere, forked_amid_call_, !is_locked);
  if (is_locked) mutex_.unlock();
  if (!file_amid_call_.open(arena_, watch_)) forked_amid_call_.clear();
  if (!forked_amid_call_.empty()) copying_amid_call_.prepare();
}

void Rehoming::after_fork_amid_call_in_parent() noexcept {
  copying_amid_call_.wait_in_parent();
  file_amid_call_.close();
  amid_call_.unlock();
}

/// Other threads may have been at any point of any call.
void Rehoming::after_fork_amid_call_in_child() noexcept {
  MapsFile::of_process().forget_in_child();
  take_all(forked_amid_call_, file_amid_call_.number());
  file_amid_call_.close();
  fork_file_.close();  // it may belong to a fork of another thread
  copying_amid_call_.finish_in_child();
  copying_.finish_in_child();  // it may belong to a fork of another thread
  forked_amid_call_.clear();
  forked_.clear();
  for (RunList* list : {&runs_, &quarantined_, &watched_}) new (list) RunList;
  has_moved_away_ = false;
  mover_.forget_in_child();
  watch_.forget_in_child();
  arena_.leave();
  new (&mutex_) Mutex;
  amid_call_.unlock();
}

}  // namespace verbatim::rehome
