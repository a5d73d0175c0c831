// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_environment.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "tools/installation.h"
#include "tools/program_environment.h"

namespace verbatim::tools {
std::string objection_to_libraries() {
  auto objection = objection_to_library(umad_folder(), kUmadLibrary);
  if (!objection) objection = objection_to_library(library_folder());
  return objection ? objection->what + "; " + objection->advice : std::string();
}

std::string files_of(const host::FabricPlace& place) { return place.folder() + ".files"; }

std::string node_folder(const host::FabricPlace& place, std::uint32_t node_number,
                        std::string& message) {
  const std::string folder = files_of(place) + "/" + std::to_string(node_number);
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!failed) return folder;
  message = folder + " cannot be made: " + failed.message();
  return {};
}

Status export_fabric(const host::FabricPlace& place, const std::string& node,
                     std::uint32_t node_number, std::string& message) {
  message = objection_to_libraries();
  if (!message.empty()) return Errc::kNoSuchObject;
  const std::string folder = node_folder(place, node_number, message);
  if (folder.empty()) return Errc::kAccessDenied;
  export_verbs(library_folder());
  // A DT_RPATH of a program would come before the path, but programs of distributions have none.
  prepend_to_variable("LD_LIBRARY_PATH", umad_folder().string());
  ::setenv("VERBATIM_FABRIC", place.name().c_str(), 1);
  ::setenv("VERBATIM_NODE", node.c_str(), 1);
  ::setenv("OSM_CACHE_DIR", folder.c_str(), 0);
  ::setenv("OSM_TMP_DIR", folder.c_str(), 0);
  return Ok{};
}

}  // namespace verbatim::tools
