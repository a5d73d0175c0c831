// SPDX-License-Identifier: Apache-2.0
#include "device/registrable.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/pointer.h"
#include "rehome/mapping_reader.h"

namespace verbatim::device {

bool is_registrable(const void* address, std::size_t octets, bool is_written) noexcept {
  if (octets == 0) return true;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin = numeric_address(address) & ~(page - 1);
  const std::uintptr_t end = numeric_address(address) + octets;
  if (end <= begin) return false;
  std::uintptr_t reached = begin;
  const long answer = rehome::for_each_mapping(begin, [&](const rehome::Mapping& mapping) {
    const bool is_allowed = is_written ? mapping.writable : mapping.readable;
    if (mapping.range.begin > reached || !is_allowed) return false;
    reached = mapping.range.end;
    return reached < end;
  });
  if (answer == 0) return reached >= end;
  // The system does not list the mappings. msync() fails if there are none, and changes nothing.
  return ::msync(pointer_as<void>(begin), end - begin, MS_ASYNC) == 0;
}

}  // namespace verbatim::device
