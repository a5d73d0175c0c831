// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Groups of processes (cgroups) whose memory the kernel limits, as containers and services are.
namespace verbatim::tools {

struct MemoryGroup {
  std::uint64_t limit_octets = 0;
  /// Without the pages of files that the kernel drops first: they end no process.
  std::uint64_t used_octets = 0;
};

/// Of the groups that this process is in, the one with the smallest part of its limit left; nothing
/// where no group has a limit. The limits of all groups above the process's own count as well.
/// `mount` is where the file systems of groups are mounted, `membership` what /proc/self/cgroup
/// says. In a container the folder of the own group may be the mount itself.
[[nodiscard]] std::optional<MemoryGroup> tightest_memory_group(const std::string& mount,
                                                               std::string_view membership);

}  // namespace verbatim::tools
