// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

#include "abi/rdmacm/table.h"

namespace verbatim::abi {

/// The functions in this process's libibverbs.so.1, loaded at first use. Null, after a message that
/// names the library, when that is not ours: half of a program on one adapter and half on another
/// would not work, and must not begin to.
[[nodiscard]] const CmTable* cm_core() noexcept;

/// Calls one of them; `failure` with ENOSYS where there is none to call.
template <auto kMember, typename Failure, typename... Arguments>
[[nodiscard]] auto call_core(Failure failure, Arguments... arguments) noexcept {
  const CmTable* core = cm_core();
  using Result = decltype((core->*kMember)(arguments...));
  if (core != nullptr) return (core->*kMember)(arguments...);
  errno = ENOSYS;
  return static_cast<Result>(failure);
}

/// The same for functions that return nothing.
template <auto kMember, typename... Arguments>
void tell_core(Arguments... arguments) noexcept {
  if (const CmTable* core = cm_core()) (core->*kMember)(arguments...);
}

}  // namespace verbatim::abi
