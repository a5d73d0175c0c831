// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_network_number.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "host/fabric_place.h"

namespace verbatim::host {
namespace {

constexpr mode_t kMode = 0600;

/// Not so when another fabric has removed the file between open(2) and flock(2).
bool is_still_at(const std::string& path, int file) noexcept {
  struct stat opened {};
  struct stat there {};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

}  // namespace

/// With the lock: no other fabric can have taken the file meanwhile.
FabricNetworkNumber::~FabricNetworkNumber() {
  if (lock_.is_open()) (void)::unlink(path_.c_str());
}

void FabricNetworkNumber::take(Range range) {
  number_ = range.first;
  std::string unsaid;  // the fabric is usable without
  const auto folder = FabricPlace::make_common_folder(unsaid);
  if (!folder) return;
  for (unsigned number = range.first; number <= range.last;) {
    const std::string path = *folder + "/.network-" + std::to_string(number);
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode));
    if (!file.is_open()) return;
    if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) {
      ++number;
      continue;
    }
    if (!is_still_at(path, file.number())) continue;  // once more
    lock_ = std::move(file);
    path_ = path;
    number_ = number;
    return;
  }
}

}  // namespace verbatim::host
