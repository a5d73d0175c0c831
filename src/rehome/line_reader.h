// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "rehome/system_call.h"

namespace verbatim::rehome {

/// Calls `visit(line)` for each line of a text file, without its end, until it returns false. A
/// line that is longer than the buffer is truncated. Allocates nothing. Returns 0, or a negative
/// errno value when the file could not be read.
template <typename Visit>
long for_each_line(const char* path, Visit&& visit) noexcept {
  const kernel::Descriptor file(kernel::open_file(path, O_RDONLY));
  if (!file.is_open()) return file.answer();
  std::array<char, 8192> buffer;  // a path has up to 4096 octets
  std::size_t held = 0;           // octets at the front that are not visited yet
  bool skipping = false;          // inside the rest of a line that was truncated
  for (;;) {
    const long got =
        kernel::call(SYS_read, file.number(), buffer.data() + held, buffer.size() - held);
    if (got == -EINTR) continue;
    if (got < 0) return got;
    std::string_view text(buffer.data(), held + static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = text.find('\n')) != std::string_view::npos;) {
      if (!skipping && !visit(text.substr(0, end))) return 0;
      skipping = false;
      text.remove_prefix(end + 1);
    }
    const bool is_full = text.size() == buffer.size();
    if (!text.empty() && !skipping && (got == 0 || is_full) && !visit(text)) return 0;
    if (got == 0) return 0;
    skipping |= is_full;
    held = skipping ? 0 : text.size();
    std::memmove(buffer.data(), text.data(), held);
  }
}

}  // namespace verbatim::rehome
