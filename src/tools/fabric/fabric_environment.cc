// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "device/fabric_ports.h"
#include "tools/installation.h"
#include "tools/program_environment.h"
#include "tools/sysfs_tree.h"

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

void export_node_sysfs(const host::FabricPlace& place, const std::string& node,
                       const host::NodeView& view) {
  const auto library = library_folder() / kRedirectLibrary;
  const bool has_adapter = view.state.kind == host::FabricNodeState::Kind::kAdapter;
  if (!has_adapter || ::access(library.c_str(), R_OK) != 0) return;
  std::string message;
  const std::string folder = node_folder(place, view.node, message);
  if (folder.empty()) return;
  const auto tree = write_sysfs_tree_at(folder + "/sysfs", {device::fabric_port_of(node, view)});
  if (!tree) return;
  ::setenv("VERBATIM_SYSFS", tree->c_str(), 1);
  prepend_to_variable("LD_PRELOAD", library.string());
}

}  // namespace verbatim::tools
