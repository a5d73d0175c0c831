// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/node/mkey_guard.h"
#include "fabric/node/port_counts.h"
#include "wire/headers/guid.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/management/port_info.h"

namespace verbatim::fabric {

/// One port of a node: all that its agents read and write (IBA Vol 1, 14.2.5). A plain record; the
/// agents keep to the rules.
struct Port {
  static constexpr std::size_t kGuidsMax = 8;            // one block of GUIDInfo
  static constexpr std::size_t kPKeysMax = 64;           // of an adapter port, and of port 0
  static constexpr std::size_t kExternalPKeysMax = 32;   // of a switch port
  static constexpr std::size_t kArbitrationEntries = 8;  // of each table

  /// Pairs of octets: lane, weight.
  using Arbitration = std::array<std::byte, 2 * kArbitrationEntries>;

  wire::PortInfo info{};  // with all speeds, and with the M_Key
  MKeyGuard mkey_guard{};
  std::array<wire::Guid, kGuidsMax> guids{};  // 0 is the port's own
  std::vector<wire::PKey> pkeys{};            // as many as fit; 0 is an empty entry
  Arbitration low_arbitration{};
  Arbitration high_arbitration{};
  PortCounts counts{};
  std::uint32_t reregister_requests = 0;
  std::uint32_t outages = 0;  // how often it was Active and then was not

  [[nodiscard]] bool passes_subnet_management() const noexcept {
    return info.state >= wire::PortState::kInitialize;
  }
  [[nodiscard]] bool is_active() const noexcept { return info.state == wire::PortState::kActive; }
  /// Whether a LID is one of the 2^LMC of this port.
  [[nodiscard]] bool has_lid(wire::Lid lid) const noexcept {
    return info.lid != wire::Lid::kReserved &&
           static_cast<unsigned>(lid) >> info.lmc == static_cast<unsigned>(info.lid) >> info.lmc;
  }
  [[nodiscard]] bool is_in_partition(wire::PKey pkey) const noexcept;
  /// Whether the table names the partition, as a full or a limited member: what a switch looks at.
  [[nodiscard]] bool names_partition(wire::PKey pkey) const noexcept;
  [[nodiscard]] wire::Gid gid(std::size_t index) const noexcept;
};

}  // namespace verbatim::fabric
