// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/expected.h"
#include "host/fabric_client.h"
#include "host/fabric_place.h"

/// What a program needs so that it is on a node of a fabric.
namespace verbatim::tools {

/// Sets the variables of this process, so of programs that it starts, for a node: VERBATIM_FABRIC,
/// VERBATIM_NODE, the folders of the libraries in LD_LIBRARY_PATH, and where they are not set, the
/// folders in which OpenSM writes. On failure `message` says why.
[[nodiscard]] Status export_fabric(const host::FabricPlace& place, const std::string& node,
                                   std::uint32_t node_number, std::string& message);

/// Lets programs that look under /sys/class/infiniband and /dev/infiniband find the adapter of the
/// node, as it is now. Without an adapter, or a place for its files, they find none.
void export_node_sysfs(const host::FabricPlace& place, const std::string& node,
                       const host::NodeView& view);

/// Why programs cannot load the libraries of this installation; empty: they can.
[[nodiscard]] std::string objection_to_libraries();

/// The folder of a fabric for what its programs write, which stays when the fabric ends.
[[nodiscard]] std::string files_of(const host::FabricPlace& place);
/// Makes a folder in it for a node, if it is not there. Empty, with a message: it cannot be made.
[[nodiscard]] std::string node_folder(const host::FabricPlace& place, std::uint32_t node_number,
                                      std::string& message);

}  // namespace verbatim::tools
