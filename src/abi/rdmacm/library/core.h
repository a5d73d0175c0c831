// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

#include "abi/rdmacm/table.h"

namespace verbatim::abi {

/// The functions in this process's libibverbs.so.1, loaded at first use. Null when that library is
/// not part of this project: it has no such functions, and the program would use two adapters. A
/// message then names the library.
[[nodiscard]] const CmTable* cm_core() noexcept;

/// Calls one of them. Returns `failure` with ENOSYS if there are none.
template <auto kMember, typename Failure, typename... Arguments>
[[nodiscard]] auto call_core(Failure failure, Arguments... arguments) noexcept {
  const CmTable* core = cm_core();
  using Result = decltype((core->*kMember)(arguments...));
  if (core != nullptr) return (core->*kMember)(arguments...);
  errno = ENOSYS;
  return static_cast<Result>(failure);
}

/// The same for functions without a result.
template <auto kMember, typename... Arguments>
void tell_core(Arguments... arguments) noexcept {
  if (const CmTable* core = cm_core()) (core->*kMember)(arguments...);
}

}  // namespace verbatim::abi
