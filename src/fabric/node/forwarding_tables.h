// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/node/port_set.h"
#include "wire/headers/lrh.h"
#include "wire/management/attribute_data.h"

namespace verbatim::fabric {

/// Where a switch sends packets: one port per LID, and ports by multicast LID (IBA Vol
/// 1, 18.2.4.3). The tables are written and read in blocks of one attribute; they take memory as
/// they are written.
class ForwardingTables {
 public:
  static constexpr std::uint16_t kLinearLimit = 0xc000;     // entries: all unicast LIDs
  static constexpr std::uint16_t kMulticastLimit = 0x1000;  // entries, from LID 0xc000 on
  static constexpr std::size_t kLinearBlock = 64;           // entries of a block
  static constexpr std::size_t kMulticastBlock = 32;
  static constexpr unsigned kMaskPorts = PortSet::kGroupPorts;  // of a multicast block
  static constexpr std::uint8_t kNoPort = 0xff;

  explicit ForwardingTables(std::uint8_t port_count);

  /// The port for a LID that is not a multicast one, whatever LinearFDBTop is.
  [[nodiscard]] std::optional<std::uint8_t> port_of(wire::Lid lid) const noexcept {
    const auto at = static_cast<std::size_t>(lid);
    if (at >= linear_.size() || linear_[at] == kNoPort) return std::nullopt;
    return linear_[at];
  }
  /// The ports for a multicast LID; they may be more than the switch has.
  [[nodiscard]] PortSet ports_of(wire::Lid multicast_lid) const noexcept;

  // By the modifier of the attribute; false: there is no such block.
  [[nodiscard]] bool read_linear(std::uint32_t modifier, wire::AttributeData to) const noexcept;
  bool write_linear(std::uint32_t modifier, wire::ConstAttributeData from);
  [[nodiscard]] bool read_multicast(std::uint32_t modifier, wire::AttributeData to) const noexcept;
  bool write_multicast(std::uint32_t modifier, wire::ConstAttributeData from);

 private:
  [[nodiscard]] std::optional<std::size_t> multicast_start(std::uint32_t modifier) const noexcept;

  std::size_t mask_count_;                // masks that hold all ports, port 0 among them
  std::vector<std::uint8_t> linear_;      // by LID
  std::vector<std::uint16_t> multicast_;  // block after block, and in it mask after mask
};

}  // namespace verbatim::fabric
