// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

/// Where this command finds the libraries that it gives to programs, relative to its own file: the
/// whole installation can be moved.
namespace verbatim::tools {

inline constexpr const char* kVerbsLibrary = "libibverbs.so.1";
inline constexpr const char* kUmadLibrary = "libibumad.so.3";
inline constexpr const char* kRedirectLibrary = "libverbatim-preload.so";

/// As installed, `lib/verbatim` beside the folder of this executable; in a build folder, `lib`.
/// Libraries of the same name that are not Verbatim's are not taken.
[[nodiscard]] std::filesystem::path library_folder();

/// The same for libibumad.so.3, which has a folder of its own: `fabric` in that of the others.
[[nodiscard]] std::filesystem::path umad_folder();

struct Objection {
  std::string what;
  std::string advice;
};
/// Why programs cannot load a library in the folder; nothing when they can.
[[nodiscard]] std::optional<Objection> objection_to_library(const std::filesystem::path& folder,
                                                            const char* name = kVerbsLibrary);

}  // namespace verbatim::tools
