// SPDX-License-Identifier: Apache-2.0
#include "rehome/page_mover.h"

#include <linux/userfaultfd.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "rehome/arena.h"
#include "rehome/signals_blocked.h"

namespace verbatim::rehome {

namespace {

constexpr std::uint64_t kMoveFeature = 1U << 16;  // UFFD_FEATURE_MOVE, which older headers lack
constexpr int kWritable = PROT_READ | PROT_WRITE;

Why reason_of(long answer) noexcept {
  switch (-answer) {
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
      return Why::kNoMemory;
    case EFBIG:
      return Why::kFileSizeLimit;
    case EMFILE:
    case ENFILE:
      return Why::kNoDescriptor;
    case EBUSY:
      return Why::kPinned;
    default:
      return Why::kRefused;
  }
}

std::size_t page_octets() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

Moved write_all(int file, std::uint64_t offset, Range from) noexcept {
  while (!from.empty()) {
    const long done = kernel::call(SYS_pwrite64, file, from.begin, from.octets(), offset);
    if (done == -EINTR) continue;
    if (done <= 0) return reason_of(done);
    from.begin += static_cast<std::uintptr_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return Ok{};
}

Moved read_all(int file, std::uint64_t offset, Range to) noexcept {
  while (!to.empty()) {
    const long done = kernel::call(SYS_pread64, file, to.begin, to.octets(), offset);
    if (done == -EINTR) continue;
    if (done <= 0) return reason_of(done);
    to.begin += static_cast<std::uintptr_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return Ok{};
}

/// Copies the pages that exist, in memory or swapped out. A page that was never touched stays a
/// hole.
Moved copy_in(Range from, int file, std::uint64_t offset) noexcept {
  constexpr std::size_t kEntriesMax = PageMover::kPieceOctets / 4096;  // the smallest page size
  std::array<std::uint64_t, kEntriesMax> entries;
  const kernel::Descriptor pagemap(kernel::open_file("/proc/self/pagemap", O_RDONLY));
  if (!pagemap.is_open()) return Why::kNoProcess;
  const std::size_t page = page_octets();
  const std::size_t count = from.octets() / page;
  const std::size_t octets = count * sizeof entries[0];
  const long got = kernel::call(SYS_pread64, pagemap.number(), entries.data(), octets,
                                from.begin / page * sizeof entries[0]);
  if (got != static_cast<long>(octets)) return Why::kNoProcess;
  const auto is_there = [&](std::size_t index) { return entries[index] >> 62 != 0; };
  for (std::size_t i = 0; i < count;) {
    std::size_t end = i + 1;
    while (end < count && is_there(end) == is_there(i)) ++end;
    if (is_there(i)) {
      const Range part{.begin = from.begin + i * page, .end = from.begin + end * page};
      if (const Moved done = write_all(file, offset + i * page, part); !done) return done;
    }
    i = end;
  }
  return Ok{};
}

}  // namespace

Moved copy_out(int file, std::uint64_t offset, Range to) noexcept {
  const std::uint64_t end = offset + to.octets();
  for (std::uint64_t next = offset; next < end;) {
    const long data = kernel::call(SYS_lseek, file, next, SEEK_DATA);
    if (data == -ENXIO) break;
    if (data < 0) return reason_of(data);
    const long hole = kernel::call(SYS_lseek, file, data, SEEK_HOLE);
    if (hole < 0) return reason_of(hole);
    if (static_cast<std::uint64_t>(data) >= end) break;
    const std::uint64_t stop = std::min(static_cast<std::uint64_t>(hole), end);
    const std::uintptr_t begin = to.begin + (static_cast<std::uint64_t>(data) - offset);
    const Range part{.begin = begin, .end = to.begin + (stop - offset)};
    if (const Moved done = read_all(file, static_cast<std::uint64_t>(data), part); !done) {
      return done;
    }
    next = stop;
  }
  return Ok{};
}

Moved make_private(int file, const PageMover::Job& job) noexcept {
  const long mapped = kernel::map(job.pages.begin, job.pages.octets(), job.protection,
                                  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, job.offset);
  if (kernel::failed(mapped)) return reason_of(mapped);
  return Ok{};
}

Moved copy_all_pages(const PageMover::Job& job) noexcept {
  const std::uintptr_t at = job.pages.begin;
  const std::size_t octets = job.pages.octets();
  const bool is_writable = (job.protection & PROT_WRITE) != 0;
  if (!is_writable && kernel::call(SYS_mprotect, at, octets, kWritable) != 0) {
    return Why::kNoMemory;
  }
  const long copied = kernel::advise(at, octets, MADV_POPULATE_WRITE);
  if (!is_writable) {
    (void)kernel::call(SYS_mprotect, at, octets, job.protection);  // on failure more is allowed
  }
  if (copied != 0) return reason_of(copied);
  return Ok{};
}

PageMover::~PageMover() { close(); }

void PageMover::close() noexcept {
  faults_.close();
  runner_.close();
  if (!scratch_.empty()) kernel::unmap(scratch_.begin, scratch_.octets());
  scratch_ = {};
}

void PageMover::forget_in_child() noexcept {
  faults_.close();
  runner_.forget_in_child();
  scratch_ = {};
}

Moved PageMover::open(int file, Taking taking) noexcept {
  file_ = file;
  takes_pages_ = taking == Taking::kBest && has_page_moves();
  if (const Moved opened = faults_.open(takes_pages_ ? kMoveFeature : 0); !opened) return opened;
  Moved reserved = runner_.open();
  if (reserved) reserved = reserve_scratch();
  if (!reserved) {
    faults_.close();
    return reserved;
  }
  return Ok{};
}

/// Two pieces long, so that a piece can be placed at the same distance from the border of a huge
/// page as in the program's memory: the kernel then moves huge pages as a whole.
Moved PageMover::reserve_scratch() noexcept {
  const long at = kernel::map(0, 2 * kPieceOctets, kWritable,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (kernel::failed(at)) return Why::kNoMemory;
  scratch_ = {.begin = static_cast<std::uintptr_t>(at),
              .end = static_cast<std::uintptr_t>(at) + 2 * kPieceOctets};
  (void)kernel::advise(scratch_.begin, scratch_.octets(), MADV_DONTFORK);  // empty at every fork
  if (!takes_pages_) return Ok{};
  // UFFDIO_MOVE needs a watched destination, and moves a piece to one mapping only. So all of it is
  // watched at once: if it were watched in parts, it would become several mappings, which do not
  // always merge again.
  return faults_.watch(scratch_, UFFDIO_REGISTER_MODE_MISSING);
}

std::uintptr_t PageMover::scratch_for(Range pages) const noexcept {
  const std::uintptr_t distance = (pages.begin - scratch_.begin) % kPieceOctets;
  return scratch_.begin + distance;
}

/// This object itself may lie on a page that moves. So while a page is missing, only the stack is
/// used, which never moves.
Moved PageMover::move(const Job& job, std::size_t& done) noexcept {
  PageMover copy;
  copy.file_ = file_;
  copy.takes_pages_ = takes_pages_;
  copy.scratch_ = scratch_;
  copy.faults_.borrow(faults_);
  struct Work {
    PageMover& mover;
    const Job job;
    std::size_t done = 0;
    Moved moved = Why::kRefused;  // stays so if the system starts no thread
  } work{.mover = copy, .job = job};
  {
    const SignalsBlocked quiet;
    (void)runner_.run(
        [](void* context) {
          auto& [mover, whole, finished, moved] = *static_cast<Work*>(context);
          moved = Ok{};
          while (moved && finished < whole.pages.octets()) {
            const std::uintptr_t begin = whole.pages.begin + finished;
            const std::size_t octets = std::min(whole.pages.end - begin, kPieceOctets);
            moved = mover.move_piece_from_stack({.pages = {.begin = begin, .end = begin + octets},
                                                 .offset = whole.offset + finished,
                                                 .protection = whole.protection});
            if (moved) finished += octets;
          }
        },
        &work);
  }
  copy.faults_.leave();
  copy.scratch_ = {};
  done = work.done;
  return work.moved;
}

Moved PageMover::move_piece_from_stack(const Job& job) noexcept {
  const std::size_t octets = job.pages.octets();
  VB_ASSERT(octets <= kPieceOctets);
  // From now on, threads of the library that touch a missing page wait.
  if (const Moved held = faults_.watch(job.pages, UFFDIO_REGISTER_MODE_MISSING); !held) {
    return held;
  }
  const std::uintptr_t scratch = scratch_for(job.pages);
  Moved moved = take_out(job, scratch);
  if (moved) {
    moved = copy_in({.begin = scratch, .end = scratch + octets}, file_, job.offset);
    if (moved) {
      const long mapped = kernel::map(job.pages.begin, octets, job.protection,
                                      MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_, job.offset);
      if (kernel::failed(mapped)) moved = reason_of(mapped);
    }
    if (!moved) put_back(job, scratch);
    const Range used{.begin = scratch, .end = scratch + octets};
    (void)kernel::advise(used.begin, octets, MADV_DONTNEED);
  }
  if (!moved) {
    (void)faults_.unwatch(job.pages);
    punch(file_, job.offset, octets);
  }
  faults_.wake(job.pages);
  return moved;
}

Moved PageMover::take_out(const Job& job, std::uintptr_t scratch) noexcept {
  if (takes_pages_) {
    const std::size_t octets = job.pages.octets();
    // The kernel moves pages from writable mappings only. No thread of the program runs and could
    // notice, and the mapping that replaces this one has the original protection.
    const bool is_writable = (job.protection & PROT_WRITE) != 0;
    if (!is_writable && kernel::call(SYS_mprotect, job.pages.begin, octets, kWritable) != 0) {
      return Why::kNoMemory;
    }
    const Moved taken = take_out_pages(job.pages, scratch);
    if (!taken && !is_writable) {
      (void)kernel::call(SYS_mprotect, job.pages.begin, octets, job.protection);
    }
    return taken;
  }
  const long parked = kernel::move(job.pages.begin, scratch, job.pages.octets(), MREMAP_DONTUNMAP);
  if (kernel::failed(parked)) return reason_of(parked);
  return Ok{};
}

/// The kernel refuses a page that a fork has left shared with another process, as if it were
/// pinned. A store of the value that is there makes it this process's own.
Moved PageMover::take_out_pages(Range pages, std::uintptr_t scratch) noexcept {
  const std::size_t page = page_octets();
  std::size_t done = 0;
  std::uintptr_t touched = 0;  // the page that was made this process's own last
  while (done < pages.octets()) {
    long error = 0;
    done +=
        faults_.move_pages(scratch + done, {.begin = pages.begin + done, .end = pages.end}, error);
    if (error == 0) continue;
    const std::uintptr_t refused = pages.begin + done;
    if (error == -EBUSY && touched != refused &&
        kernel::advise(refused, page, MADV_POPULATE_WRITE) == 0) {
      touched = refused;
      continue;
    }
    put_back({.pages = {.begin = pages.begin, .end = refused}}, scratch);
    return reason_of(error);
  }
  return Ok{};
}

/// Moves the pages of a piece back to where they were.
void PageMover::put_back(const Job& job, std::uintptr_t scratch) noexcept {
  const std::size_t octets = job.pages.octets();
  if (octets == 0) return;
  if (takes_pages_) {
    long error = 0;
    const std::size_t done =
        faults_.move_pages(job.pages.begin, {.begin = scratch, .end = scratch + octets}, error);
    // The pages came from there, and no other thread has put pages there since.
    VB_ASSERT(done == octets);
    if (job.protection != kWritable && job.protection != 0) {
      (void)kernel::call(SYS_mprotect, job.pages.begin, octets, job.protection);
    }
    return;
  }
  // The mapping is moved back. A process with the largest allowed number of mappings cannot move
  // one. Then the empty mapping is still there, and the pages are copied into it.
  if (kernel::failed(kernel::move(scratch, job.pages.begin, octets))) {
    const bool is_copied = faults_.copy(job.pages.begin, scratch, octets);
    VB_ASSERT(is_copied);  // otherwise the program's memory would be lost
  }
  (void)kernel::map(scratch, octets, kWritable,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace verbatim::rehome
