// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

/// The output of the commands with `--json`.
namespace verbatim::tools {

/// Members stay in the order in which they were added.
using Json = nlohmann::ordered_json;

/// The lines of the output, each with its end. Octets that are not UTF-8, which names of programs
/// may contain, are replaced.
[[nodiscard]] inline std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace verbatim::tools
