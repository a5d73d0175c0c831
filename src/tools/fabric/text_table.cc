// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/text_table.h"

#include <algorithm>
#include <cstddef>

#include "tools/text.h"

namespace verbatim::tools {

std::string table_of(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t at = 0; at < row.size(); ++at) {
      widths[at] = std::max(widths[at], row[at].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t at = 0; at < row.size(); ++at) {
      line += printable(row[at]);
      if (at + 1 < row.size()) line.append(widths[at] + 2 - row[at].size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace verbatim::tools
