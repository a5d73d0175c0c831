// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_network_number.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "host/fabric_place.h"

namespace verbatim::host {
namespace {

constexpr mode_t kMode = 0600;

}  // namespace

void FabricNetworkNumber::take(Range range) {
  number_ = range.first;
  std::string unsaid;  // the fabric is usable without
  const auto folder = FabricPlace::make_common_folder(unsaid);
  if (!folder) return;
  for (unsigned number = range.first; number <= range.last; ++number) {
    const std::string path = *folder + "/.network-" + std::to_string(number);
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode));
    if (!file.is_open()) return;
    if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0) continue;
    lock_ = std::move(file);
    number_ = number;
    return;
  }
}

}  // namespace verbatim::host
