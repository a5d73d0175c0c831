// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/peer_access.h"
#include "device/region_homes.h"
#include "host/queue_lock.h"
#include "memory/domain.h"
#include "memory/key_registry.h"

namespace verbatim::device {

class Adapter;

/// The parts of an adapter that its memory regions and memory windows use. All of them outlive
/// these.
struct MemoryParts {
  host::AdapterLock& lock;  // guards the keys, the domains and what `homes` says
  memory::KeyRegistry& keys;
  memory::DomainTable& domains;
  RegionHomes& homes;
  PeerAccess& peers;

  [[nodiscard]] static MemoryParts of(Adapter& adapter) noexcept;
};

}  // namespace verbatim::device
