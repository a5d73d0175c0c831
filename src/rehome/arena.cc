// SPDX-License-Identifier: Apache-2.0
#include "rehome/arena.h"

#include <linux/falloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>

#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

/// All addresses that the kernel gives to a program unless the program asks for higher ones: 2^47
/// octets on x86-64, 2^48 on Arm.
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 48;

/// A file longer than the limit would cause SIGXFSZ.
std::uint64_t file_size_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kAddressSpace;
  }
  return limit.rlim_cur;
}

}  // namespace

Arena::~Arena() { close(); }

bool Arena::is_file_of(int descriptor) const noexcept {
  struct stat state {};
  return descriptor >= 0 && ::fstat(descriptor, &state) == 0 && state.st_ino == inode_ &&
         major(state.st_dev) == major_ && minor(state.st_dev) == minor_;
}

void Arena::close() noexcept {
  if (is_intact()) (void)kernel::call(SYS_close, descriptor_);
  descriptor_ = -1;
}

Moved Arena::open(Range first) noexcept {
  if (is_open()) return Ok{};
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t size = std::min(file_size_limit(), kAddressSpace) / page * page;
  if (size < first.octets()) return Why::kFileSizeLimit;
  kernel::Descriptor file(
      kernel::call(SYS_memfd_create, "verbatim-regions", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open()) {
    const bool is_full = file.answer() == -EMFILE || file.answer() == -ENFILE;
    return is_full ? Why::kNoDescriptor : Why::kNoMemory;
  }
  struct stat state {};
  if (kernel::call(SYS_ftruncate, file.number(), size) != 0 ||
      kernel::call(SYS_fcntl, file.number(), F_ADD_SEALS, F_SEAL_SHRINK) != 0 ||
      ::fstat(file.number(), &state) != 0) {
    return Why::kNoMemory;
  }
  // Room on both sides of the first range: heaps grow upwards, mappings downwards.
  const std::uint64_t below = (size - first.octets()) / 2 / page * page;
  base_ = size == kAddressSpace || first.begin < below ? 0 : first.begin - below;
  size_ = size;
  inode_ = state.st_ino;
  major_ = major(state.st_dev);
  minor_ = minor(state.st_dev);
  const long moved = kernel::call(SYS_fcntl, file.number(), F_DUPFD_CLOEXEC, kernel::kKeptFrom);
  descriptor_ = moved >= 0 ? static_cast<int>(moved) : file.release();
  return Ok{};
}

void Arena::leave() noexcept { close(); }

Moved Arena::admit(Range pages) const noexcept {
  if (pages.begin < base_ || offset_of(pages.end) > std::min(size_, file_size_limit())) {
    return Why::kFileSizeLimit;
  }
  if (!is_intact()) return Why::kRefused;
  return Ok{};
}

void punch(int file, std::uint64_t offset, std::size_t octets) noexcept {
  // If the system refuses, the pages stay allocated; nothing else is wrong.
  (void)kernel::call(SYS_fallocate, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                     octets);
}

}  // namespace verbatim::rehome
