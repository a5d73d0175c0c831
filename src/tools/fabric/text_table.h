// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace verbatim::tools {

/// Rows of cells as columns with two blanks between them, left-aligned, with printable characters.
[[nodiscard]] std::string table_of(const std::vector<std::vector<std::string>>& rows);

}  // namespace verbatim::tools
