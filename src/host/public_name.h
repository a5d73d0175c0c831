// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace verbatim::host {

/// An abstract UNIX name (a leading zero, no terminating one), for communication between processes
/// of different users: exclusive in its network namespace, listed in /proc/net/unix, and released
/// by the kernel when the last descriptor of its socket is closed. It has no permissions: any user
/// can take it, and connect or send to it.
class PublicName {
 public:
  /// `@<text>`, truncated to the longest name that the kernel allows.
  explicit PublicName(std::string_view text) noexcept {
    address_.sun_family = AF_UNIX;
    const std::size_t length = std::min(text.size(), sizeof address_.sun_path - 1);
    std::memcpy(address_.sun_path + 1, text.data(), length);
    octets_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }

  /// These return what the system calls of the same names return, with errno.
  [[nodiscard]] int bind(int socket) const noexcept { return ::bind(socket, base(), octets_); }
  [[nodiscard]] int connect(int socket) const noexcept {
    return ::connect(socket, base(), octets_);
  }
  [[nodiscard]] ssize_t send(int socket, std::span<const std::byte> octets) const noexcept {
    return ::sendto(socket, octets.data(), octets.size(), MSG_DONTWAIT | MSG_NOSIGNAL, base(),
                    octets_);
  }

 private:
  [[nodiscard]] const sockaddr* base() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address_);
  }

  sockaddr_un address_{};
  socklen_t octets_ = 0;
};

}  // namespace verbatim::host
