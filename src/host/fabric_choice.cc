// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_choice.h"

#include <utility>

#include "base/environment.h"

namespace verbatim::host {
namespace {

std::string value_of(const char* name) {
  const char* value = environment_variable(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool FabricChoice::exists() noexcept {
  const char* fabric = environment_variable("VERBATIM_FABRIC");
  return fabric != nullptr && *fabric != '\0';
}

Expected<FabricChoice> FabricChoice::read(std::string& message) {
  auto place = FabricPlace::of(value_of("VERBATIM_FABRIC"), message);
  if (!place) return place.error();
  std::string node = value_of("VERBATIM_NODE");
  if (!node.empty()) return FabricChoice{.place = std::move(*place), .node = std::move(node)};
  message =
      "VERBATIM_FABRIC is set, but VERBATIM_NODE is not; start the program with `verbatim run "
      "--fabric " +
      place->name() + " --node NODE`";
  return Errc::kInvalidArgument;
}

}  // namespace verbatim::host
