// SPDX-License-Identifier: Apache-2.0
// The version of Verbatim as an ELF note, in each of its libraries: `readelf -n` shows it, and the
// `verbatim` command reads it without loading the library.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/version.h"

namespace verbatim::abi {
namespace {

constexpr std::string_view kOwner = "Verbatim";
constexpr std::string_view kText = kVersionText;

/// A note as the ELF specification lays it out; the parts are padded to words.
struct VersionNote {
  std::uint32_t owner_octets = kOwner.size() + 1;
  std::uint32_t text_octets = 16;
  std::uint32_t type = 1;  // NT_VERSION
  char owner[12] = {};
  char text[16] = {};
};
static_assert(kOwner.size() < sizeof VersionNote::owner);
static_assert(kText.size() < sizeof VersionNote::text);

constexpr VersionNote version_note() noexcept {
  VersionNote note;
  std::ranges::copy(kOwner, note.owner);
  std::ranges::copy(kText, note.text);
  return note;
}

// Without alignas, g++ aligns it more than notes may be.
[[gnu::section(".note.verbatim"),
  gnu::used]] alignas(4) constinit const VersionNote kVersionNote = version_note();

}  // namespace
}  // namespace verbatim::abi
