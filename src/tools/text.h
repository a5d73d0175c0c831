// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "device/config.h"
#include "wire/headers/ids.h"

/// Texts of several commands.
namespace verbatim::tools {

/// A text of another process for a terminal: printable ASCII, other characters as '?'.
[[nodiscard]] std::string printable(std::string_view text);
/// An address in the usual notation.
[[nodiscard]] std::string text_of(const wire::Gid& gid);
/// The content of a small file without the last line end; nothing when it cannot be read.
[[nodiscard]] std::string content_of(const std::string& path);

/// The path of data between the processes of one host, and its cause: as values for JSON, and as
/// sentences. An unknown value is "?".
[[nodiscard]] const char* name_of(device::DataPathPolicy path) noexcept;
[[nodiscard]] const char* name_of(device::DataPathCause cause) noexcept;
[[nodiscard]] const char* sentence_of(device::DataPathPolicy path,
                                      device::DataPathCause cause) noexcept;

}  // namespace verbatim::tools
