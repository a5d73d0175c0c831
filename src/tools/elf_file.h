// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// What the headers of programs and libraries say, as far as the dynamic linker cares. Reads no
/// more of the file than these.
namespace verbatim::tools {

struct ElfFile {
  enum class Kind : std::uint8_t {
    kNone,     // cannot be read, or is something else, such as a script
    kForeign,  // for another kind of processor than this command
    kOurs,
  };
  Kind kind = Kind::kNone;
  /// The dynamic linker that the kernel starts; without one, a program loads no library.
  std::string interpreter;
  std::string own_name;  // DT_SONAME
  std::vector<std::string> needed;
  std::string search_path;       // DT_RPATH or DT_RUNPATH
  std::string verbatim_version;  // of a library of Verbatim's; else empty
};
[[nodiscard]] ElfFile read_elf_file(const std::string& path);

/// Why a program, started by `verbatim run`, would not find the adapter: it loads no library, or
/// its C library is not the one that Verbatim's libraries need. Nothing when there is no such
/// reason.
struct Obstacle {
  std::string what;
  std::string advice;
  bool may_start_others = true;  // programs that it starts may find the adapter
};
[[nodiscard]] std::optional<Obstacle> obstacle_in(const ElfFile& program);

/// The file that a shell would execute.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace verbatim::tools
