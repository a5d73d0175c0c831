// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/expected.h"

namespace verbatim::tools {

/// The content of a file that a user names, of at most 64 MiB. On failure `message` says what is
/// wrong, with the name of the file.
[[nodiscard]] Expected<std::string> content_of_file(const std::string& name, std::string& message);

}  // namespace verbatim::tools
