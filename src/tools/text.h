// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "device/config.h"
#include "wire/ids.h"

/// Words that several commands say.
namespace verbatim::tools {

/// What another process calls itself, fit for a terminal: printable ASCII, others as '?'.
[[nodiscard]] std::string printable(std::string_view text);
/// An address as people write it.
[[nodiscard]] std::string text_of(const wire::Gid& gid);
/// The content of a small file without the last line end; nothing when it cannot be read.
[[nodiscard]] std::string content_of(const std::string& path);

/// Which way data takes between the processes of one host, and why: as values for machines, and for
/// people. Values that do not exist are "?".
[[nodiscard]] const char* name_of(device::PathPolicy path) noexcept;
[[nodiscard]] const char* name_of(device::PathCause cause) noexcept;
[[nodiscard]] const char* sentence_of(device::PathPolicy path, device::PathCause cause) noexcept;

}  // namespace verbatim::tools
