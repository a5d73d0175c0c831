// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "device/port_info.h"

namespace verbatim::tools {

/// Writes a description of the adapters as the kernel has it under /sys/class and /dev/infiniband,
/// for programs that look there instead of calling the library: one folder per user and network
/// namespace, written again each time. Nothing when there is no place for it.
[[nodiscard]] std::optional<std::filesystem::path> write_sysfs_tree(
    const std::vector<device::PortInfo>& ports);

/// The same in a folder that the caller has chosen.
[[nodiscard]] std::optional<std::filesystem::path> write_sysfs_tree_at(
    const std::filesystem::path& root, const std::vector<device::PortInfo>& ports);

}  // namespace verbatim::tools
