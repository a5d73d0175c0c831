// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace verbatim::host {

/// Lets other processes of this user at our memory with process_vm_readv(2) and
/// process_vm_writev(2) where Yama keeps them from it unless we say so (ptrace_scope 1). Who is of
/// this user is still for the kernel to judge. Any of them, because a process has many peers and
/// can name but one.
///
/// Once in a process; a forked child has to ask for itself. Any thread.
void allow_peer_calls() noexcept;

/// Whether /proc/sys/kernel/yama/ptrace_scope with these contents asks for it: 0 needs no leave,
/// and beyond 1 none can be given.
[[nodiscard]] constexpr bool asks_for_leave(std::string_view ptrace_scope) noexcept {
  return ptrace_scope == "1" || ptrace_scope == "1\n";
}

}  // namespace verbatim::host
