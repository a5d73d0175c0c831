// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "wire/headers/mad.h"
#include "wire/headers/smp.h"
#include "wire/management/port_info.h"

namespace verbatim::fabric {

/// Compares the M_Key of subnet management packets with that of a port (IBA Vol 1, 14.2.4). The
/// first wrong key starts the lease; a right one within it ends it, else the protection ends.
class MKeyGuard {
 public:
  /// Whether the packet may be carried out. One that may not is discarded without an answer.
  [[nodiscard]] bool admits(Instant now, wire::PortInfo& info, wire::MadMethod method,
                            wire::MKey key) noexcept;
  /// Whether an answer to a packet with this key may show the M_Key.
  [[nodiscard]] static bool shows(const wire::PortInfo& info, wire::MKey key) noexcept;

 private:
  Instant lease_end_ = Instant::never();
};

}  // namespace verbatim::fabric
