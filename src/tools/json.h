// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// What the commands print for machines (`--json`).
namespace verbatim::tools {

/// Members come in the order in which they were added.
using Json = nlohmann::ordered_json;

/// Lines with a line end each. Octets that are not UTF-8, as names of programs may have, are
/// replaced.
[[nodiscard]] inline std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace verbatim::tools
