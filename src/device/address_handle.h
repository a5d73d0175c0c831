// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "device/adapter.h"
#include "memory/domain.h"
#include "transport/path.h"

namespace verbatim::device {

/// An address handle (IBA Vol 1, 10.2.2.2): how datagrams reach one destination. It counts in its
/// domain, and in the quota of the adapter, which outlives it.
///
/// Thread: any thread of the program, without the adapter's lock.
class AddressHandle {
 public:
  /// kInvalidArgument when the destination cannot be reached (Adapter::path_to()), kNoMemory when
  /// the device has as many address handles as it can have. `domain` is an open one.
  [[nodiscard]] static Expected<AddressHandle> create(Adapter& adapter, memory::DomainId domain,
                                                      const Adapter::Destination& to);
  void destroy();

  [[nodiscard]] const transport::Path& path() const noexcept { return path_; }

 private:
  AddressHandle(Adapter& adapter, memory::DomainId domain, const transport::Path& path) noexcept
      : path_(path), adapter_(&adapter), domain_(domain) {}

  transport::Path path_;
  Adapter* adapter_;
  memory::DomainId domain_;
};

}  // namespace verbatim::device
