// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbatim::host {

/// The directory in which the processes of one user in one network namespace find each other: their
/// UNIX sockets and their opening lock lie there. It is `/tmp/.verbatim-<uid>/net-<cookie>`, with
/// mode 0700 and owned by the user, so the kernel keeps other users from connecting to a socket in
/// it, from taking a name in it, and from reading which names there are (docs/decisions/0022). The
/// processes of a node of a fabric have `/tmp/.verbatim-<uid>/node-<hash>` instead.
///
/// If another user has made `/tmp/.verbatim-<uid>` first, a directory `/tmp/.verbatim-<uid>-*` is
/// made. If the user owns such a directory, it is used, also when the plain name is free again. If
/// /tmp cannot be written, /dev/shm is tried. VERBATIM_DIR=<path> names another place: containers
/// that share a network namespace find each other through a directory that is mounted in all of
/// them. The mode of an existing directory is not changed: a directory that others may enter is
/// refused.
///
/// An object lives as long as the process. Any thread.
class RuntimeDirectory {
 public:
  /// The directory in which a UNIX socket has its name; for one without a name, that of its network
  /// namespace and the effective user of the process. Null when there is none: explain() says why.
  [[nodiscard]] static const RuntimeDirectory* of(int socket) noexcept;
  /// From now on this process is on a node of a fabric: the processes of that node are a host of
  /// their own, and find each other in another directory than those of other nodes.
  static void enter(const std::string& fabric_folder, std::uint32_t node) noexcept;
  /// Why this process has none, and what to do about it; empty when it has one.
  [[nodiscard]] static std::string explain();
  /// The longest VERBATIM_DIR: the names in it must fit into the address of a UNIX socket.
  static constexpr std::size_t kPathOctetsMax = 26;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The user's directory, which contains this one: for files that do not depend on the network.
  [[nodiscard]] const std::string& parent() const noexcept { return parent_; }
  /// Makes the directory if it does not exist. The caller owns the descriptor. While it is open, no
  /// other process removes the directory, or a name in it that is about to be used. -1 when the
  /// system does not allow it.
  [[nodiscard]] int hold() const noexcept;

  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;

 private:
  RuntimeDirectory() = default;
  [[nodiscard]] static const RuntimeDirectory* find_by_name(int socket) noexcept;

  std::string parent_;
  std::string path_;
  std::uint64_t network_ = 0;
  uid_t user_ = 0;
  const RuntimeDirectory* next_ = nullptr;
};

}  // namespace verbatim::host
