// SPDX-License-Identifier: Apache-2.0
#include "host/desk_names.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "host/netlink_dump.h"

namespace verbatim::host {

namespace {

constexpr unsigned kListens = 0x1'0000;  // a flag in /proc/net/unix

bool is_wanted(std::string_view name, std::string_view prefix) noexcept {
  return name.substr(0, prefix.size()) == prefix &&
         name.find('/', prefix.size()) == std::string_view::npos;
}

/// The name in one entry of the list, if it is a public name of this user.
std::optional<std::string> name_in(std::span<const std::byte> entry, uid_t user) {
  std::optional<std::string> name;
  auto rest = entry.subspan(std::min(sizeof(unix_diag_msg), entry.size()));
  while (const auto part = take_attribute(rest)) {
    const auto value = part->value;
    if (part->type == UNIX_DIAG_NAME && value.size() > 1 && value[0] == std::byte{0}) {
      name.emplace(value.size() - 1, '\0');
      std::memcpy(name->data(), value.data() + 1, name->size());
    } else if (part->type == UNIX_DIAG_UID && value.size() == sizeof(std::uint32_t)) {
      std::uint32_t owner = 0;
      std::memcpy(&owner, value.data(), sizeof owner);
      if (owner != user) return std::nullopt;
    }
  }
  return name;
}

/// All listening sockets, one entry for each; nothing when the kernel cannot list them.
std::optional<std::vector<std::string>> ask_kernel(uid_t user, std::string_view prefix) {
  unix_diag_req wanted{};
  wanted.sdiag_family = AF_UNIX;
  wanted.udiag_states = 1U << TCP_LISTEN;
  wanted.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  NetlinkDump dump = NetlinkDump::of(NETLINK_SOCK_DIAG);
  if (!dump.ask(SOCK_DIAG_BY_FAMILY, std::as_bytes(std::span(&wanted, 1)))) return std::nullopt;
  std::vector<std::string> names;
  while (const auto entry = dump.next()) {
    if (entry->type != SOCK_DIAG_BY_FAMILY) continue;
    auto name = name_in(entry->body, user);
    if (name && is_wanted(*name, prefix)) names.push_back(std::move(*name));
  }
  return dump.is_complete() ? std::optional(std::move(names)) : std::nullopt;
}

}  // namespace

std::vector<std::string> desk_names_of(uid_t user, std::string_view prefix) {
  auto names = ask_kernel(user, prefix);
  return names ? std::move(*names) : desk_names_of_all(prefix);
}

/// Words of a line: address, references, protocol, flags, type, state, inode, name. A connection
/// that was accepted has the name of its listener, and does not listen itself.
std::vector<std::string> desk_names_of_all(std::string_view prefix) {
  std::vector<std::string> names;
  std::FILE* list = std::fopen("/proc/thread-self/net/unix", "re");
  if (list == nullptr) return names;
  char line[512];
  while (std::fgets(line, sizeof line, list) != nullptr) {
    unsigned flags = 0;
    char name[sizeof line];
    if (std::sscanf(line, "%*s %*s %*s %x %*s %*s %*s @%511s", &flags, name) != 2) continue;
    if ((flags & kListens) != 0 && is_wanted(name, prefix)) names.emplace_back(name);
  }
  std::fclose(list);
  return names;
}

}  // namespace verbatim::host
