// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/thread_safety.h"

namespace verbatim {

/// The right to use the parts of an adapter, as clang's analysis of locks knows it. A thread has
/// the right while it holds the adapter's lock (host::AdapterGuard), or while it is the only thread
/// that knows the adapter (SoleUser).
///
/// The parts of an adapter are in several classes and layers, most of which do not see the lock. So
/// the right has one name for all adapters: the analysis finds a thread that holds no adapter's
/// lock, but not a thread that holds the lock of another adapter.
class VB_CAPABILITY("adapter") AdapterRole {};
inline constexpr AdapterRole adapter_role{};

/// The calling thread has the right, which the analysis cannot see: in a lambda that is called at
/// once, by a function that does not know of the right.
inline void assume_adapter_role() noexcept VB_ASSERTS(adapter_role) {}

/// In the scope of one of these, the thread is the only one that can reach the adapter: while the
/// adapter is made or destroyed, in a forked child, and in a simulation. It takes no lock.
class VB_SCOPED_CAPABILITY SoleUser {
 public:
  SoleUser() noexcept VB_ACQUIRE(adapter_role) {}
  SoleUser(const SoleUser&) = delete;
  SoleUser& operator=(const SoleUser&) = delete;
  ~SoleUser() VB_RELEASE() {}  // NOLINT(modernize-use-equals-default): the analysis needs a body
};

}  // namespace verbatim
