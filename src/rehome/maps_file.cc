// SPDX-License-Identifier: Apache-2.0
#include "rehome/maps_file.h"

#include "rehome/system_call.h"

namespace verbatim::rehome {

MapsFile& MapsFile::of_process() noexcept {
  static constinit MapsFile file;
  return file;
}

void MapsFile::open() noexcept {
  if (number_ >= 0 && process_ == ::getpid()) return;
  kernel::Descriptor file(kernel::open_file("/proc/self/maps", O_RDONLY));
  struct stat state {};
  if (!file.is_open() || ::fstat(file.number(), &state) != 0) return;
  device_ = state.st_dev;
  inode_ = state.st_ino;
  process_ = ::getpid();
  number_ = file.release();
}

void MapsFile::forget_in_child() noexcept {
  process_ = ::getpid();  // the file shows the parent's memory
  if (const int file = descriptor(); file >= 0) (void)kernel::call(SYS_close, file);
  number_ = -1;
}

int MapsFile::descriptor() const noexcept {
  struct stat state {};
  const bool is_ours = number_ >= 0 && process_ == ::getpid() && ::fstat(number_, &state) == 0 &&
                       state.st_dev == device_ && state.st_ino == inode_;
  return is_ours ? number_ : -1;
}

}  // namespace verbatim::rehome
