// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

namespace verbatim::host {

/// The users and groups of this process: recorded when an adapter opens, and compared when another
/// process wants to reach its memory.
///
/// The rule is the kernel's for ptrace(2): the other process has the same user and group, and this
/// process has not changed its own since (as a daemon that gives up root does) and is dumpable
/// (prctl(2)).
struct Credentials {
  uid_t users[3]{};   // real, effective, saved
  gid_t groups[3]{};  // likewise
  friend bool operator==(const Credentials&, const Credentials&) noexcept = default;

  [[nodiscard]] static Credentials current() noexcept {
    Credentials now;
    (void)::getresuid(&now.users[0], &now.users[1], &now.users[2]);
    (void)::getresgid(&now.groups[0], &now.groups[1], &now.groups[2]);
    return now;
  }

  [[nodiscard]] uid_t user() const noexcept { return users[1]; }
  [[nodiscard]] gid_t group() const noexcept { return groups[1]; }

  /// Whether this process still has these users and groups, and other processes of its user may
  /// reach its memory.
  [[nodiscard]] bool admit_others() const noexcept {
    return *this == current() && ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
  }
  [[nodiscard]] bool match(const ucred& other) const noexcept {
    return other.uid == user() && other.gid == group();
  }
};

}  // namespace verbatim::host
