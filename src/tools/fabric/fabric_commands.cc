// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include "tools/fabric/fabric_command.h"
#include "tools/fabric/fabric_control.h"
#include "tools/fabric/fabric_options.h"
#include "tools/json.h"

namespace verbatim::tools {
namespace {

int complain(const std::string& message) {
  std::fprintf(stderr, "verbatim fabric: %s\n", message.c_str());
  return 1;
}

/// Does something with a connection to the fabric that the user means.
template <typename Use>
int with_control(const std::string& fabric, Use use) {
  std::string message;
  const auto place = chosen_fabric(fabric, message);
  if (!place) return complain(message);
  auto control = FabricControl::connect(*place, message);
  if (!control) return complain(message);
  return use(*control);
}

}  // namespace

int run_fabric_command(const std::string& fabric, const std::vector<std::string>& words) {
  return with_control(fabric, [&](FabricControl& control) {
    std::string message;
    const auto answer = control.execute(line_of(words), message);
    if (!answer) return complain(message);
    if (answer->is_done) {
      std::fputs(answer->text.c_str(), stdout);
      return 0;
    }
    const bool is_sentence = answer->text.find('\n') + 1 == answer->text.size();
    std::fprintf(stderr, "%s%s", is_sentence ? "verbatim fabric: " : "", answer->text.c_str());
    return 1;
  });
}

int run_fabric_down(const std::string& fabric) {
  return with_control(fabric, [](FabricControl& control) {
    std::string message;
    if (!control.execute("quit", message)) return complain(message);
    if (!control.await_end()) return complain("the fabric's process does not end");
    return 0;
  });
}

int run_fabric_list(bool json) {
  const auto names = running_fabrics();
  if (json) {
    std::fputs(text_of(Json(names)).c_str(), stdout);
    return 0;
  }
  for (const std::string& name : names) std::printf("%s\n", name.c_str());
  if (names.empty()) std::fputs("no fabric is running\n", stderr);
  return 0;
}

}  // namespace verbatim::tools
