// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace verbatim::host {

/// Whether this process may give its peers a descriptor of its own address space. It may unless the
/// administrator allows processes of one user no access to each other's memory, however they ask
/// (Yama's ptrace_scope above 1). Any thread.
[[nodiscard]] bool may_lend_memory() noexcept;

/// Whether /proc/sys/kernel/yama/ptrace_scope with these contents allows it: 1 keeps out what the
/// process has not asked in, and beyond 1 it cannot ask anything in.
[[nodiscard]] constexpr bool allows_lending(std::string_view ptrace_scope) noexcept {
  return ptrace_scope.empty() || ptrace_scope.front() == '0' || ptrace_scope.front() == '1';
}

}  // namespace verbatim::host
