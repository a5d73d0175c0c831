// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/management/trap_details.h"

namespace verbatim::fabric {

/// Packets that reached a port with a P_Key or Q_Key other than the one that they needed there (IBA
/// Vol 1, 10.9.3), and one of them as the trap tells of it.
struct BadKeyReport {
  enum class Key : std::uint8_t { kPKey, kQKey };
  Key key{};
  std::uint32_t count = 1;
  wire::BadKey last{};
};

}  // namespace verbatim::fabric
