// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace verbatim::host {

/// Whether this process may give its peers a descriptor of its own address space. It may not when
/// the administrator forbids processes of one user all access to each other's memory (Yama's
/// ptrace_scope above 1). Any thread.
[[nodiscard]] bool may_lend_memory() noexcept;

/// Whether /proc/sys/kernel/yama/ptrace_scope with these contents allows it. With 1 a process may
/// give other processes access to itself; with 2 and 3 it may not.
[[nodiscard]] constexpr bool allows_lending(std::string_view ptrace_scope) noexcept {
  return ptrace_scope.empty() || ptrace_scope.front() == '0' || ptrace_scope.front() == '1';
}

}  // namespace verbatim::host
