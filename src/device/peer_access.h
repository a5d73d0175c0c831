// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

#include "base/adapter_role.h"
#include "host/adapter_guard.h"

namespace verbatim::device {

/// The accesses that peers on this host make to memory of this process, without the adapter's lock.
/// A caller that has made a key invalid waits here for the accesses that had found it valid.
/// Visitors implements this; tests of regions have an implementation of their own.
///
/// With the adapter's lock held.
class PeerAccess {
 public:
  PeerAccess() noexcept = default;
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;

  /// Returns true when no peer is in the middle of an access. Returns false when a peer was stopped
  /// in the middle of one: the peer may store there when it continues.
  [[nodiscard]] virtual bool await() VB_REQUIRES(adapter_role) = 0;
  /// The same for accesses by system calls: returns when every call into this memory that was
  /// announced before has ended, also those of stopped peers. `lock` is released while it waits.
  virtual void await_calls(host::AdapterGuard& lock, std::uint64_t address, std::uint64_t octets)
      VB_REQUIRES(adapter_role) = 0;

 protected:
  ~PeerAccess() = default;
};

}  // namespace verbatim::device
