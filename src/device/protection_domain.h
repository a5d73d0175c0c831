// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "base/expected.h"
#include "device/adapter.h"
#include "memory/domain.h"

namespace verbatim::device {

/// A protection domain (IBA Vol 1, 10.2.3) of an adapter, which outlives it.
///
/// Thread: any thread of the program, without the adapter's lock.
class ProtectionDomain {
 public:
  /// kNoMemory when the device has as many domains as it can have.
  [[nodiscard]] static Expected<ProtectionDomain> create(Adapter& adapter) noexcept {
    const host::AdapterGuard lock(adapter.mutex());
    auto id = adapter.domains().open();
    if (!id) return id.error();
    return ProtectionDomain(adapter, *id);
  }
  /// kBusy while it contains an object.
  [[nodiscard]] Status destroy() noexcept {
    const host::AdapterGuard lock(adapter_->mutex());
    return adapter_->domains().close(id_);
  }

  [[nodiscard]] memory::DomainId id() const noexcept { return id_; }

 private:
  ProtectionDomain(Adapter& adapter, memory::DomainId id) noexcept : adapter_(&adapter), id_(id) {}

  Adapter* adapter_;
  memory::DomainId id_;
};

}  // namespace verbatim::device
