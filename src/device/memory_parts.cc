// SPDX-License-Identifier: Apache-2.0
#include "device/memory_parts.h"

#include "device/adapter.h"

namespace verbatim::device {

MemoryParts MemoryParts::of(Adapter& adapter) noexcept {
  return {.lock = adapter.mutex(),
          .keys = adapter.keys(),
          .domains = adapter.domains(),
          .homes = adapter.homes(),
          .peers = adapter.visitors()};
}

}  // namespace verbatim::device
