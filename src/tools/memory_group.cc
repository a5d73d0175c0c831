// SPDX-License-Identifier: Apache-2.0
#include "tools/memory_group.h"

#include <algorithm>
#include <charconv>

#include "tools/text.h"

namespace verbatim::tools {
namespace {

/// The names of one version of groups.
struct Version {
  const char* mount;
  const char* controller;  // in /proc/self/cgroup
  const char* limit;
  const char* used;
  const char* dropped_first;  // in memory.stat
};
constexpr Version kVersions[] = {
    {"", "", "/memory.max", "/memory.current", "inactive_file "},
    {"/memory", "memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
     "total_inactive_file "},
};
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;  // version 1 has a number for "none"

std::optional<std::uint64_t> number_at(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// The number after `name` at the beginning of a line; 0 when there is none.
std::uint64_t number_after(const std::string& text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    return number_at(std::string_view(text).substr(at + name.size())).value_or(0);
  }
  return 0;
}

/// The path of the process's group; "" when the line of the controller is missing.
std::string group_of(std::string_view membership, const std::string& controller) {
  const std::string wanted = ":" + controller + ":";
  const std::size_t at = membership.find(wanted);
  if (at == std::string_view::npos) return {};
  const std::size_t from = at + wanted.size();
  const std::size_t end = std::min(membership.find('\n', from), membership.size());
  std::string path(membership.substr(from, end - from));
  return path == "/" ? std::string() : path;
}

std::optional<MemoryGroup> read_group(const std::string& folder, const Version& version) {
  const auto limit = number_at(content_of(folder + version.limit));
  const auto used = number_at(content_of(folder + version.used));
  if (!limit || !used || *limit == 0 || *limit >= kNoLimit) return std::nullopt;
  const auto dropped = number_after(content_of(folder + "/memory.stat"), version.dropped_first);
  return MemoryGroup{.limit_octets = *limit, .used_octets = *used - std::min(*used, dropped)};
}

bool is_tighter(const MemoryGroup& a, const MemoryGroup& b) {
  const auto part = [](const MemoryGroup& group) {
    return static_cast<double>(group.used_octets) / static_cast<double>(group.limit_octets);
  };
  return part(a) > part(b);
}

}  // namespace

std::optional<MemoryGroup> tightest_memory_group(const std::string& mount,
                                                 std::string_view membership) {
  std::optional<MemoryGroup> tightest;
  for (const Version& version : kVersions) {
    std::string group = group_of(membership, version.controller);
    while (true) {
      const auto found = read_group(mount + version.mount + group, version);
      if (found && (!tightest || is_tighter(*found, *tightest))) tightest = found;
      if (group.empty()) break;
      group.resize(std::min(group.rfind('/'), group.size() - 1));
    }
  }
  return tightest;
}

}  // namespace verbatim::tools
