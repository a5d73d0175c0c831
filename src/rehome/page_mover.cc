// SPDX-License-Identifier: Apache-2.0
#include "rehome/page_mover.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace verbatim::rehome {

namespace {

/// All signals of this thread wait until the end of the scope.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept { (void)change(&kAll, &before_); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { (void)change(&before_, nullptr); }

 private:
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  static long change(const std::uint64_t* to, std::uint64_t* before) noexcept {
    constexpr int kSetMask = 2;  // SIG_SETMASK, as the kernel has it on x86-64 and Arm
    return kernel::call(SYS_rt_sigprocmask, kSetMask, to, before, sizeof *to);
  }
  std::uint64_t before_ = 0;
};

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
      return Why::kUserfaultfd;
    default:
      return Why::kRefused;
  }
}

Moved write_all(int file, std::uint64_t offset, Range from) noexcept {
  while (!from.empty()) {
    const long done = kernel::call(SYS_pwrite64, file, from.begin, from.octets(), offset);
    if (done <= 0) return reason_of(done);
    from.begin += static_cast<std::uintptr_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return Ok{};
}

Moved read_all(int file, std::uint64_t offset, Range to) noexcept {
  while (!to.empty()) {
    const long done = kernel::call(SYS_pread64, file, to.begin, to.octets(), offset);
    if (done <= 0) return reason_of(done);
    to.begin += static_cast<std::uintptr_t>(done);
    offset += static_cast<std::uint64_t>(done);
  }
  return Ok{};
}

/// Copies the pages that are there, in memory or swapped out: what was never touched stays a hole.
Moved copy_in(int pagemap, Range from, int file, std::uint64_t offset) noexcept {
  constexpr std::size_t kEntriesMax = PageMover::kPieceOctets / 4096;  // the smallest page there is
  std::array<std::uint64_t, kEntriesMax> entries;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t count = from.octets() / page;
  const std::size_t octets = count * sizeof entries[0];
  const long got = kernel::call(SYS_pread64, pagemap, entries.data(), octets,
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

long open_faults(bool user_mode_only) noexcept {
  const int flags = O_CLOEXEC | O_NONBLOCK | (user_mode_only ? UFFD_USER_MODE_ONLY : 0);
  const long answer = kernel::call(SYS_userfaultfd, flags);
  if (answer != -EPERM || user_mode_only) return answer;
  const kernel::Descriptor device(kernel::open_file("/dev/userfaultfd", O_RDWR));
  return device.is_open() ? kernel::call(SYS_ioctl, device.number(), USERFAULTFD_IOC_NEW, flags)
                          : answer;
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

Moved return_parked(std::uintptr_t from, Range to) noexcept {
  const long answer = kernel::move(from, to.begin, to.octets());
  if (!kernel::failed(answer)) return Ok{};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t half = to.octets() / page / 2 * page;
  if (half == 0) return reason_of(answer);
  const std::uintptr_t middle = to.begin + half;
  if (const Moved done = return_parked(from, {.begin = to.begin, .end = middle}); !done) {
    return done;
  }
  return return_parked(from + half, {.begin = middle, .end = to.end});
}

Moved make_private(int file, const PageMover::Job& job) noexcept {
  constexpr int kWritable = PROT_READ | PROT_WRITE;
  const std::size_t octets = job.range.octets();
  const std::uintptr_t at = job.range.begin;
  const long mapped =
      kernel::map(at, octets, kWritable, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, job.offset);
  if (kernel::failed(mapped)) return reason_of(mapped);
  const long copied = kernel::advise(at, octets, MADV_POPULATE_WRITE);
  if (job.protection != kWritable) {
    (void)kernel::call(SYS_mprotect, at, octets, job.protection);  // more is allowed, if it fails
  }
  if (copied != 0) return reason_of(copied);
  return Ok{};
}

Moved PageMover::open(Guarding guarding) noexcept {
  bool everybody_waits = guarding == Guarding::kBest;
  if (everybody_waits) faults_.reset(open_faults(false));
  if (!faults_.is_open()) {
    everybody_waits = false;
    faults_.reset(open_faults(true));
  }
  if (!faults_.is_open()) {
    const Why why = reason_of(faults_.answer());
    return why == Why::kNoDescriptor || why == Why::kNoMemory ? why : Why::kNoGuard;
  }
  uffdio_api api{};
  api.api = UFFD_API;
  if (kernel::call(SYS_ioctl, faults_.number(), UFFDIO_API, &api) != 0) return Why::kNoGuard;
  pagemap_.reset(kernel::open_file("/proc/self/pagemap", O_RDONLY));
  if (!pagemap_.is_open()) {
    return reason_of(pagemap_.answer()) == Why::kNoDescriptor ? Why::kNoDescriptor
                                                              : Why::kNoProcess;
  }
  const bool may_protect = !everybody_waits && guarding != Guarding::kBlocking;
  copies_under_protection_ = may_protect && (api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
  copies_arena_under_protection_ =
      may_protect && (api.features & UFFD_FEATURE_WP_HUGETLBFS_SHMEM) != 0;
  return Ok{};
}

Moved PageMover::register_faults(Range range, std::uint64_t mode) noexcept {
  uffdio_register request{};
  request.range = {.start = range.begin, .len = range.octets()};
  request.mode = mode;
  const long answer = kernel::call(SYS_ioctl, faults_.number(), UFFDIO_REGISTER, &request);
  if (answer != 0) return reason_of(answer);
  return Ok{};
}

bool PageMover::protect(Range range) noexcept {
  uffdio_writeprotect request{};
  request.range = {.start = range.begin, .len = range.octets()};
  request.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  return kernel::call(SYS_ioctl, faults_.number(), UFFDIO_WRITEPROTECT, &request) == 0;
}

void PageMover::release_faults(Range range) noexcept {
  uffdio_range request{.start = range.begin, .len = range.octets()};
  (void)kernel::call(SYS_ioctl, faults_.number(), UFFDIO_UNREGISTER, &request);
}

void PageMover::wake(Range range) noexcept {
  uffdio_range request{.start = range.begin, .len = range.octets()};
  (void)kernel::call(SYS_ioctl, faults_.number(), UFFDIO_WAKE, &request);
}

Moved PageMover::move_in(Job& job) noexcept {
  while (!job.range.empty()) {
    Job piece = job;
    const std::size_t octets = std::min(job.range.octets(), kPieceOctets);
    piece.range.end = piece.range.begin + octets;
    const Moved moved = move_piece_in(piece);
    if (!moved) {
      kernel::unmap(job.parking + octets, job.range.octets() - octets);
      return moved;
    }
    job.range.begin += octets;
    job.parking += octets;
    job.offset += octets;
  }
  return Ok{};
}

/// From the back: the kernel finds the end of data in a file by looking at every page up to the
/// next hole, and what has been moved back is one.
Moved PageMover::move_back(Job& job) noexcept {
  while (!job.range.empty()) {
    const std::size_t octets = std::min(job.range.octets(), kPieceOctets);
    const std::size_t before = job.range.octets() - octets;
    Job piece = job;
    piece.range.begin += before;
    piece.parking += before;
    piece.offset += before;
    if (const Moved moved = move_piece_back(piece); !moved) return moved;
    punch(file_, piece.offset, octets);
    job.range.end = piece.range.begin;
  }
  return Ok{};
}

Moved PageMover::move_piece_in(const Job& piece) noexcept {
  const SignalsBlocked quiet;
  Moved moved = hold_stores(piece.range);
  if (!moved) {
    kernel::unmap(piece.parking, piece.range.octets());
  } else {
    // It fails when the program throws pages away meanwhile; from the parking place it will not.
    const bool is_copied = copies_under_protection_ &&
                           copy_in(pagemap_.number(), piece.range, file_, piece.offset).ok();
    moved = replace_by_arena(piece, is_copied);
  }
  if (!moved) release_faults(piece.range);
  wake(piece.range);
  if (!moved) punch(file_, piece.offset, piece.range.octets());
  // What cannot be given back is only memory.
  if (moved) (void)kernel::advise(piece.parking, piece.range.octets(), MADV_DONTNEED);
  return moved;
}

Moved PageMover::hold_stores(Range range) noexcept {
  const std::uint64_t mode =
      UFFDIO_REGISTER_MODE_MISSING | (copies_under_protection_ ? UFFDIO_REGISTER_MODE_WP : 0);
  if (const Moved ours = register_faults(range, mode); !ours) return ours;
  if (copies_under_protection_ && !protect(range)) return Why::kRefused;
  return Ok{};
}

/// The mapping goes to its parking place with all its pages; whoever touches the piece meanwhile
/// waits for a page that is missing.
Moved PageMover::replace_by_arena(const Job& piece, bool is_copied) noexcept {
  const std::size_t octets = piece.range.octets();
  const std::uintptr_t at = piece.range.begin;
  if (const long parked = kernel::move(at, piece.parking, octets, MREMAP_DONTUNMAP);
      kernel::failed(parked)) {
    kernel::unmap(piece.parking, octets);
    return reason_of(parked);
  }
  Moved moved = Ok{};
  if (!is_copied) {
    moved = copy_in(pagemap_.number(), {.begin = piece.parking, .end = piece.parking + octets},
                    file_, piece.offset);
  }
  if (moved) {
    const long mapped =
        kernel::map(at, octets, piece.protection, MAP_SHARED | MAP_FIXED, file_, piece.offset);
    if (kernel::failed(mapped)) moved = reason_of(mapped);
    if (moved && piece.dont_fork) (void)kernel::advise(at, octets, MADV_DONTFORK);
  }
  if (!moved && !return_parked(piece.parking, piece.range)) copy_parked(piece);
  return moved;
}

/// A process that has as many mappings as it may have cannot move one, but it has one: the pages
/// are copied into it, and whoever waits for one finds it.
void PageMover::copy_parked(const Job& piece) noexcept {
  uffdio_copy request{};
  request.dst = piece.range.begin;
  request.src = piece.parking;
  request.len = piece.range.octets();
  const long copied = kernel::call(SYS_ioctl, faults_.number(), UFFDIO_COPY, &request);
  // Without this the program's memory would be gone.
  VB_ASSERT(copied == 0);
  kernel::unmap(piece.parking, piece.range.octets());
}

Moved PageMover::move_piece_back(const Job& piece) noexcept {
  const SignalsBlocked quiet;
  const std::size_t octets = piece.range.octets();
  const Range parking{.begin = piece.parking, .end = piece.parking + octets};
  constexpr int kWritable = PROT_READ | PROT_WRITE;
  const auto allow = [&](int protection) {
    return kernel::call(SYS_mprotect, parking.begin, octets, protection) == 0;
  };
  if (!allow(kWritable)) return Why::kNoMemory;
  Moved moved = hold_arena_stores(piece.range);
  if (moved) moved = copy_out(file_, piece.offset, parking);
  if (moved && piece.protection != kWritable && !allow(piece.protection)) moved = Why::kNoMemory;
  if (moved) moved = return_parked(piece.parking, piece.range);
  if (!moved) release_faults(piece.range);
  wake(piece.range);
  return moved;
}

Moved PageMover::hold_arena_stores(Range range) noexcept {
  if (copies_arena_under_protection_) {
    if (const Moved ours = register_faults(range, UFFDIO_REGISTER_MODE_WP); !ours) return ours;
    if (!protect(range)) return Why::kRefused;
    return Ok{};
  }
  constexpr std::uint64_t kAnyUse = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR;
  if (const Moved ours = register_faults(range, kAnyUse); !ours) return ours;
  // Every page is mapped anew at its next use, and that waits.
  if (kernel::advise(range.begin, range.octets(), MADV_DONTNEED) != 0) return Why::kRefused;
  return Ok{};
}

}  // namespace verbatim::rehome
