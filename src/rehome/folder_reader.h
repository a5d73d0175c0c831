// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "rehome/system_call.h"

namespace verbatim::rehome {

/// Calls `visit(name)` for each entry of an open folder, "." and ".." included, until it returns
/// false. Allocates nothing. Returns 0, or a negative errno value.
template <typename Visit>
long for_each_entry_of(int folder, Visit&& visit) noexcept {
  // linux_dirent64: inode 8, offset 8, octets of the entry 2, type 1, then the name.
  constexpr std::size_t kLengthAt = 16;
  constexpr std::size_t kNameAt = 19;
  alignas(8) std::array<char, 4096> entries;
  for (;;) {
    const long got = kernel::call(SYS_getdents64, folder, entries.data(), entries.size());
    if (got <= 0) return got;
    for (std::size_t at = 0; at + kNameAt < static_cast<std::size_t>(got);) {
      std::uint16_t length = 0;
      std::memcpy(&length, entries.data() + at + kLengthAt, sizeof length);
      if (!visit(entries.data() + at + kNameAt)) return 0;
      at += length;
    }
  }
}

template <typename Visit>
long for_each_entry(const char* path, Visit&& visit) noexcept {
  const kernel::Descriptor folder(kernel::open_file(path, O_RDONLY | O_DIRECTORY));
  if (!folder.is_open()) return folder.answer();
  return for_each_entry_of(folder.number(), visit);
}

}  // namespace verbatim::rehome
