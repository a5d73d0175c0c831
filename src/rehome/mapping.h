// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "rehome/range.h"

namespace verbatim::rehome {

/// One line of /proc/self/maps (proc(5)): a range of addresses and what is mapped there.
struct Mapping {
  Range range;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  std::uint64_t offset = 0;    // of the range's first octet in the file
  std::uint32_t major = 0;     // the file's device; 0:0 where there is no file
  std::uint32_t minor = 0;     //
  std::uint64_t inode = 0;     // 0 where there is no file
  std::string_view name = {};  // a path, "[heap]", "[stack]", or nothing; points into the line

  /// Memory of this process alone, without a file.
  [[nodiscard]] bool is_private_anonymous() const noexcept {
    return !shared && inode == 0 && major == 0 && minor == 0 &&
           (name.empty() || name == "[heap]" || name.starts_with("[anon:"));
  }
  [[nodiscard]] bool is_stack() const noexcept { return name.starts_with("[stack"); }
  [[nodiscard]] bool is_huge() const noexcept {
    return name.starts_with("/anon_hugepage") || name.starts_with("/dev/hugepages/");
  }
};

/// Parses one line without its end; nothing for a line of any other form.
[[nodiscard]] std::optional<Mapping> parse_mapping(std::string_view line) noexcept;

}  // namespace verbatim::rehome
