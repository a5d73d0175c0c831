// SPDX-License-Identifier: Apache-2.0
// Rehoming and fork(2). A mapping of the arena is shared by nature; a child must have memory of its
// own that shows what the parent's showed at the fork.
#include <algorithm>
#include <numeric>

#include "rehome/mapping_reader.h"
#include "rehome/pinning.h"
#include "rehome/rehoming.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

/// Up to here a child copies what it has inherited, and MADV_DONTNEED gives it zeroes. Beyond, it
/// keeps private mappings of the arena, where MADV_DONTNEED gives what was there at the fork: a
/// child that only executes another program must not wait for gigabytes.
constexpr std::size_t kCopiedOctetsMax = std::size_t{64} << 20;

/// More than a process may have (vm.max_map_count is 65530 where it was not raised).
constexpr std::size_t kMappingsMax = std::size_t{1} << 18;

/// Whole pages, whatever the program has told a sanitizer about them.
__attribute__((no_sanitize("address"))) void copy_words(std::uintptr_t to, std::uintptr_t from,
                                                        std::size_t octets) noexcept {
  auto* const target = std::bit_cast<volatile std::uint64_t*>(to);
  const auto* const source = std::bit_cast<const volatile std::uint64_t*>(from);
  for (std::size_t i = 0; i < octets / sizeof *target; ++i) target[i] = source[i];
}

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// In the child, which has nothing there: copies pages of the arena. False when it has something,
/// because another thread unmapped the memory before the fork and mapped other memory.
bool fill_hole(int file, const PageMover::Job& job) noexcept {
  const std::size_t octets = job.pages.octets();
  const long at = kernel::map(job.pages.begin, octets, PROT_READ | PROT_WRITE,
                              kAnonymous | MAP_FIXED_NOREPLACE, -1, 0);
  if (kernel::failed(at)) return false;
  // Before Linux 4.17 the flag is not known, and the address is a wish.
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

/// In the child: puts memory without a file in place of a private mapping of the arena, where
/// MADV_DONTNEED would show the arena's page.
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

/// The mappings of the arena in a range, also those that are not at their place there.
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

void Rehoming::note_inheritance(Range where) {
  const auto note = [&](const Inherited& mapping) {
    // After ibv_fork_init(3) a child has nothing where memory is registered, as with hardware.
    if (!config_.dont_fork || !is_registered(mapping.job.pages)) forked_.push_back(mapping);
  };
  (void)for_each_arena_mapping(where, note);
}

bool Rehoming::is_registered(Range pages) const {
  const auto runs = runs_.within(pages);
  return std::any_of(runs.begin(), runs.end(), [](const Run& run) { return run.count > 0; });
}

/// Other threads may have unmapped parts of it meanwhile, and mapped other memory there.
void Rehoming::part_from_child(Range where) {
  (void)for_each_arena_mapping(where, [&](const Inherited& mapping) {
    if (mapping.is_private) return;
    const PageMover::Job& job = mapping.job;
    watch_.remove_arena_pages(job.pages);
    (void)make_private(arena_.descriptor(), job);
    (void)watch_.add_arena_pages(job.pages);
    (void)runs_.remove(job.pages);
    (void)quarantined_.remove(job.pages);
    quarantined_.insert({.range = job.pages});
  });
}

/// In the child, which has one thread. The table says what the parent had a moment before the fork.
void Rehoming::take_inheritance(const Inherited& mapping) {
  if (mapping.is_private) {
    const auto replace = [](const Inherited& left) { replace_private_mapping(left.job); };
    if (!for_each_arena_mapping(mapping.job.pages, replace)) replace(mapping);
    return;
  }
  if (fill_hole(arena_.descriptor(), mapping.job)) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  PageMover::Job one = mapping.job;
  for (std::uintptr_t at = mapping.job.pages.begin; at < mapping.job.pages.end; at += page) {
    one.pages = {.begin = at, .end = at + page};
    one.offset = mapping.job.offset + (at - mapping.job.pages.begin);
    (void)fill_hole(arena_.descriptor(), one);
  }
}

Rehoming::ForkMode Rehoming::fork_mode() noexcept {
  learn_departures();
  forked_.clear();
  if (!arena_.is_intact() || !forked_.open(kMappingsMax)) return ForkMode::kNothing;
  if (has_moved_away_) {
    note_inheritance({.begin = 0, .end = ~std::uintptr_t{0}});
  } else {
    for (const Run& run : runs_.runs()) {
      if (!run.is_lost) note_inheritance(run.range);
    }
    for (const Run& run : quarantined_.runs()) note_inheritance(run.range);
  }
  if (forked_.empty()) return ForkMode::kNothing;
  // A store to a private mapping would part a page from the one that the kernel has pinned.
  return may_have_pinned_pages() ? ForkMode::kCopies : ForkMode::kPrivate;
}

void Rehoming::prepare_fork(ForkMode mode) noexcept {
  fork_ = mode;
  if (mode == ForkMode::kCopies && ::pipe2(fork_pipe_, O_CLOEXEC) != 0) {
    fork_pipe_[0] = fork_pipe_[1] = -1;
  }
  if (mode != ForkMode::kPrivate) return;
  watch_.keep_pages_of_children();
  for (Inherited& mapping : forked_) {
    if (!mapping.is_private) part_from_child(mapping.job.pages);
    mapping.is_private = true;
  }
}

void Rehoming::after_fork_in_parent() noexcept {
  if (fork_ == ForkMode::kCopies && fork_pipe_[0] >= 0) {
    (void)kernel::call(SYS_close, fork_pipe_[1]);
    char none = 0;
    while (kernel::call(SYS_read, fork_pipe_[0], &none, sizeof none) == -EINTR) {
    }
    (void)kernel::call(SYS_close, fork_pipe_[0]);
  }
  mutex_.unlock();
}

void Rehoming::after_fork_in_child() noexcept {
  MapsFile::of_process().forget_in_child();
  const std::size_t octets = std::accumulate(
      forked_.begin(), forked_.end(), std::size_t{0},
      [](std::size_t sum, const Inherited& each) { return sum + each.job.pages.octets(); });
  if (fork_ != ForkMode::kNothing && arena_.is_intact()) {
    for (const Inherited& mapping : forked_) {
      if (mapping.is_private && octets > kCopiedOctetsMax) continue;
      take_inheritance(mapping);
    }
  }
  if (fork_ == ForkMode::kCopies && fork_pipe_[0] >= 0) {
    (void)kernel::call(SYS_close, fork_pipe_[0]);
    (void)kernel::call(SYS_close, fork_pipe_[1]);
  }
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

}  // namespace verbatim::rehome
