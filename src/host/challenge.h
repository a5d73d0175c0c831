// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "host/own_descriptor.h"

namespace verbatim::host {

/// Lets the kernel decide whether another process may reach the memory of this one. The owner of
/// the memory keeps a secret where the kernel shows it only to processes that may look into the
/// owner (PTRACE_MODE_READ of ptrace(2)). A process that knows the secret has that right.
///
/// The secret is the name of a memory file that the owner has open. readlink(2) of
/// /proc/<owner>/fd/<number> shows it. The kernel looks at users and groups, at the user namespace,
/// at capabilities, at whether the owner is dumpable, and asks the security modules (Landlock and
/// others). Yama's `ptrace_scope` does not restrict this kind of access.
///
/// Thread: one at a time.
class Challenge {
 public:
  using Secret = std::array<std::uint8_t, 16>;

  Challenge() noexcept = default;
  Challenge(const Challenge&) = delete;
  Challenge& operator=(const Challenge&) = delete;
  ~Challenge() { close(); }

  /// Makes a new secret. False when the system gives no descriptor or no random number.
  [[nodiscard]] bool open() noexcept;
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  /// The number of the secret's descriptor, which the door sends to the attaching process.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  [[nodiscard]] bool is_met_by(const Secret& answer) const noexcept {
    return is_open() && answer == secret_;
  }

  /// The secret that the process at the other end of a UNIX connection keeps at this descriptor.
  /// Nothing when the kernel does not show it to this process, or when the other process is in
  /// another process namespace, or when /proc is not mounted.
  ///
  /// Only the process that the kernel names as the other end is read. So a process that forwards
  /// the challenge of a third process gets no answer to it.
  [[nodiscard]] static std::optional<Secret> answer_to(int connection, int descriptor) noexcept;
  /// Whether the kernel lets this process look into the one at the other end of a UNIX connection.
  [[nodiscard]] static bool may_look_into_peer_of(int connection) noexcept;

 private:
  OwnDescriptor descriptor_;
  Secret secret_{};
};

}  // namespace verbatim::host
