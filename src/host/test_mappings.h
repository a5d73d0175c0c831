// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

/// What the tests of this layer ask the kernel about mappings. Nothing but tests includes this.
namespace verbatim::host::test {

/// The flags of the mapping that contains an address, as /proc/self/smaps abbreviates them, each
/// behind a space; empty when there is none.
inline std::string flags_of_mapping(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::FILE* file = std::fopen("/proc/self/smaps", "re");
  if (file == nullptr) return {};
  std::string flags;
  char line[1024];
  bool is_it = false;
  while (flags.empty() && std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long first = 0;
    unsigned long past = 0;
    if (std::sscanf(line, "%lx-%lx ", &first, &past) == 2) is_it = first <= at && at < past;
    if (is_it && std::strncmp(line, "VmFlags:", 8) == 0) flags = line + 8;
  }
  std::fclose(file);
  return flags;
}

inline bool is_in_core_dumps(const void* address) {
  return flags_of_mapping(address).find(" dd") == std::string::npos;
}

/// The memory that a memory file has.
inline std::size_t octets_allocated(int file) {
  struct stat about {};
  return ::fstat(file, &about) == 0 ? static_cast<std::size_t>(about.st_blocks) * 512 : 0;
}

}  // namespace verbatim::host::test
