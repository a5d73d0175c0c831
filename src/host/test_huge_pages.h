// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/pointer.h"

namespace verbatim::host::test {

/// Octets of the mapping around `at` that lie in huge pages.
inline std::size_t huge_octets_at(const void* at) {
  const auto address = numeric_address(at);
  std::ifstream smaps("/proc/self/smaps");
  bool is_there = false;
  std::size_t sum = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::size_t kibioctets = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) {
      is_there = begin <= address && address < end;
    } else if (std::sscanf(line.c_str(), "AnonHugePages: %zu", &kibioctets) == 1 ||
               std::sscanf(line.c_str(), "ShmemPmdMapped: %zu", &kibioctets) == 1) {
      if (is_there) sum += kibioctets << 10;
    }
  }
  return sum;
}

}  // namespace verbatim::host::test
