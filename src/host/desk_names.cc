// SPDX-License-Identifier: Apache-2.0
#include "host/desk_names.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace verbatim::host {

namespace {

constexpr std::size_t kRoomOctets = 32 * 1024;
constexpr unsigned kListens = 0x1'0000;  // a flag in /proc/net/unix

bool is_wanted(std::string_view name, std::string_view prefix) noexcept {
  return name.substr(0, prefix.size()) == prefix &&
         name.find('/', prefix.size()) == std::string_view::npos;
}

/// The name in one message of a dump, if it is a public name of this user.
std::optional<std::string> name_in(std::span<const std::byte> message, uid_t user) {
  constexpr std::size_t kFront = NLMSG_LENGTH(sizeof(unix_diag_msg));
  std::optional<std::string> name;
  for (auto rest = message.subspan(std::min(kFront, message.size()));
       rest.size() >= RTA_LENGTH(0);) {
    rtattr part{};
    std::memcpy(&part, rest.data(), sizeof part);
    if (part.rta_len < RTA_LENGTH(0) || part.rta_len > rest.size()) break;
    const auto value = rest.first(part.rta_len).subspan(RTA_LENGTH(0));
    if (part.rta_type == UNIX_DIAG_NAME && value.size() > 1 && value[0] == std::byte{0}) {
      name.emplace(value.size() - 1, '\0');
      std::memcpy(name->data(), value.data() + 1, name->size());
    } else if (part.rta_type == UNIX_DIAG_UID && value.size() == sizeof(std::uint32_t)) {
      std::uint32_t owner = 0;
      std::memcpy(&owner, value.data(), sizeof owner);
      if (owner != user) return std::nullopt;
    }
    rest = rest.subspan(std::min<std::size_t>(RTA_ALIGN(part.rta_len), rest.size()));
  }
  return name;
}

/// All listening sockets, one message for each; nothing when the kernel cannot list them.
std::optional<std::vector<std::string>> ask_kernel(uid_t user, std::string_view prefix) {
  const int socket = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (socket < 0) return std::nullopt;
  struct {
    nlmsghdr header;
    unix_diag_req wanted;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.wanted.sdiag_family = AF_UNIX;
  request.wanted.udiag_states = 1U << TCP_LISTEN;
  request.wanted.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  std::vector<std::string> names;
  bool is_complete = false;
  bool goes_on = ::send(socket, &request, sizeof request, 0) == sizeof request;
  const auto room = std::make_unique<std::byte[]>(kRoomOctets);
  while (goes_on) {
    const ssize_t received = ::recv(socket, room.get(), kRoomOctets, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) break;
    auto rest = std::span<const std::byte>(room.get(), static_cast<std::size_t>(received));
    while (goes_on && rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header{};
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) break;
      is_complete = header.nlmsg_type == NLMSG_DONE;
      goes_on = !is_complete && header.nlmsg_type != NLMSG_ERROR;
      if (header.nlmsg_type == SOCK_DIAG_BY_FAMILY) {
        auto name = name_in(rest.first(header.nlmsg_len), user);
        if (name && is_wanted(*name, prefix)) names.push_back(std::move(*name));
      }
      rest = rest.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
    }
  }
  ::close(socket);
  return is_complete ? std::optional(std::move(names)) : std::nullopt;
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
