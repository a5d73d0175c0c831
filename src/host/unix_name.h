// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

namespace verbatim::host {

/// The name of a UNIX socket in the RuntimeDirectory of a socket's network namespace: exclusive
/// there, and not accessible to other users. The kernel does not remove it when its process ends,
/// but a name whose socket is closed is free: bind() takes it.
///
/// Processes of different versions must agree on these names and on host/share_message.h.
class UnixName {
 public:
  static constexpr std::size_t kOctetsMax = 104;

  UnixName() noexcept = default;
  /// `<slot>`: the datagram socket of the slot.
  [[nodiscard]] static UnixName of_slot(std::uint32_t slot) noexcept { return made("%u", slot); }
  /// `<slot>.port`: where the process in the slot sends the sockets of the port.
  [[nodiscard]] static UnixName of_share(std::uint32_t slot) noexcept {
    return made("%u.port", slot);
  }
  /// `<slot>.alive`: where other processes notice its end.
  [[nodiscard]] static UnixName of_alive(std::uint32_t slot) noexcept {
    return made("%u.alive", slot);
  }
  /// `<slot>.attach`: its Door, where peers and viewers attach.
  [[nodiscard]] static UnixName of_door(std::uint32_t slot) noexcept {
    return made("%u.attach", slot);
  }
  /// `<slot>.view`: its Door if it admits viewers only.
  [[nodiscard]] static UnixName of_view(std::uint32_t slot) noexcept {
    return made("%u.view", slot);
  }
  /// Any other name in the directory, truncated to the longest one that the kernel allows.
  [[nodiscard]] static UnixName in_directory(std::string_view text) noexcept {
    UnixName name;
    std::copy_n(text.begin(), std::min(text.size(), kOctetsMax - 1), name.text_.begin());
    return name;
  }

  [[nodiscard]] std::string_view text() const noexcept { return text_.data(); }

  /// These return what the system calls of the same names return, with errno. ECONNREFUSED: no
  /// process has the name. EADDRINUSE: a process, this one included, has it. EACCES: the process
  /// has no RuntimeDirectory, or is no longer allowed to use it.
  [[nodiscard]] int bind(int socket) const noexcept { return bind_beside(socket, socket); }
  /// In the directory of `named_socket`, also if the process has changed its user since.
  [[nodiscard]] int bind_beside(int named_socket, int socket) const noexcept;
  [[nodiscard]] int connect(int socket) const noexcept;
  [[nodiscard]] ssize_t send(int socket, std::span<const std::byte> octets) const noexcept;

  /// Whether a process has a socket of this name in the directory of `socket`.
  [[nodiscard]] bool is_held_beside(int socket) const noexcept;

  /// Removes the name of a socket that this process has bound, before the socket is closed.
  static void remove(int socket) noexcept;
  /// Removes the names of closed sockets from a directory, and nothing else. Does nothing while
  /// another process takes over such names.
  static void remove_unused_in(const std::string& directory) noexcept;
  /// Removes the lock files as well: before the directory is removed, by a process that has locked
  /// it exclusively.
  static void remove_all_unused_in(const std::string& directory) noexcept;

 private:
  [[nodiscard]] static UnixName made(const char* pattern, std::uint32_t slot) noexcept {
    UnixName name;
    std::snprintf(name.text_.data(), name.text_.size(), pattern, slot);
    return name;
  }

  std::array<char, kOctetsMax> text_{};
};

/// The process at the other end of a connected UNIX socket, as the kernel says.
[[nodiscard]] inline ucred peer_of(int socket) noexcept {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t octets = sizeof peer;
  (void)::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &octets);  // on failure: unknown
  return peer;
}

}  // namespace verbatim::host
