// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace verbatim::host {

/// An abstract UNIX name (a zero in front, none behind): exclusive in its network namespace, and
/// released by the kernel when the last descriptor of its socket is closed.
///
/// What processes of different versions must agree on is these names and host/share_message.h.
struct UnixName {
  union {
    sockaddr base;
    sockaddr_un un;
  };
  socklen_t octets = 0;

  UnixName() noexcept : un{} { un.sun_family = AF_UNIX; }

  [[nodiscard]] int bind(int socket) const noexcept { return ::bind(socket, &base, octets); }
  [[nodiscard]] int connect(int socket) const noexcept { return ::connect(socket, &base, octets); }

  /// `@verbatim/<uid>/<slot>`: the slot itself, a datagram socket.
  [[nodiscard]] static UnixName of_slot(std::uint32_t slot) noexcept {
    return made("verbatim/%u/%u", slot);
  }
  /// `@verbatim/<uid>/<slot>/port`: where its process hands out the sockets of the port.
  [[nodiscard]] static UnixName of_share(std::uint32_t slot) noexcept {
    return made("verbatim/%u/%u/port", slot);
  }
  /// `@verbatim/<uid>/<slot>/alive`: where others notice that its process is gone.
  [[nodiscard]] static UnixName of_alive(std::uint32_t slot) noexcept {
    return made("verbatim/%u/%u/alive", slot);
  }
  /// `@verbatim/<uid>/<slot>/attach`: where others get descriptors of what they may map.
  [[nodiscard]] static UnixName of_door(std::uint32_t slot) noexcept {
    return made("verbatim/%u/%u/attach", slot);
  }
  /// `@verbatim/<uid>/<slot>/view`: likewise, where its process lets them look only.
  [[nodiscard]] static UnixName of_view(std::uint32_t slot) noexcept {
    return made("verbatim/%u/%u/view", slot);
  }
  /// `@verbatim/<uid>/opening`: whoever changes the sockets of the port.
  [[nodiscard]] static UnixName of_opening() noexcept { return made("verbatim/%u/opening", 0); }
  /// `@<text>`, cut off where a name ends.
  [[nodiscard]] static UnixName of_text(std::string_view text) noexcept {
    UnixName name;
    const std::size_t length = std::min(text.size(), sizeof name.un.sun_path - 1);
    std::memcpy(name.un.sun_path + 1, text.data(), length);
    name.octets = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    return name;
  }

 private:
  [[nodiscard]] static UnixName made(const char* pattern, std::uint32_t slot) noexcept {
    UnixName name;
    const int length = std::snprintf(name.un.sun_path + 1, sizeof name.un.sun_path - 1, pattern,
                                     static_cast<unsigned>(::geteuid()), slot);
    name.octets =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
    return name;
  }
};

/// Who is at the other end of a connected UNIX socket, as the kernel says.
[[nodiscard]] inline ucred peer_of(int socket) noexcept {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t octets = sizeof peer;
  (void)::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &octets);  // stays nobody then
  return peer;
}

}  // namespace verbatim::host
