// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/node/forwarding_tables.h"
#include "fabric/node/port.h"
#include "fabric/node/trap_queue.h"
#include "fabric/topology/topology.h"
#include "wire/management/node_info.h"
#include "wire/management/switch_info.h"

namespace verbatim::fabric {

/// The parts that only a switch has.
struct SwitchPart {
  using LaneMap = std::array<std::byte, 8>;  // a lane for each service level, in four bits

  explicit SwitchPart(const TopologyNode& node);
  wire::SwitchInfo info{};
  ForwardingTables tables;
  std::vector<LaneMap> lane_maps{};  // by port in and port out; empty: all are as at the start
};

/// The lane of a service level, as a table has it.
[[nodiscard]] constexpr std::uint8_t lane_of(const SwitchPart::LaneMap& map,
                                             wire::ServiceLevel level) noexcept {
  const auto at = static_cast<std::size_t>(level) & 0x0fU;
  const auto two = std::to_integer<std::uint8_t>(map[at / 2]);
  return at % 2 == 0 ? two >> 4 : two & 0x0f;
}

/// A channel adapter or a switch as its agents see it: ports, tables, traps. It does not know its
/// neighbours.
class Node {
 public:
  /// Lane = service level modulo the lanes.
  static constexpr SwitchPart::LaneMap kFirstLanes{
      std::byte{0x01}, std::byte{0x23}, std::byte{0x45}, std::byte{0x67},
      std::byte{0x01}, std::byte{0x23}, std::byte{0x45}, std::byte{0x67}};

  /// `rates` by port; what port 0 has does not matter.
  Node(const TopologyNode& node, std::span<const LinkRate> rates);

  [[nodiscard]] bool is_switch() const noexcept { return switch_part_.has_value(); }
  [[nodiscard]] std::uint8_t port_count() const noexcept { return port_count_; }
  [[nodiscard]] Port& port(std::uint8_t number) noexcept { return ports_[number]; }
  [[nodiscard]] const Port& port(std::uint8_t number) const noexcept { return ports_[number]; }
  /// The port that a subnet manager manages the node through: port 0 of a switch, or the port of an
  /// adapter at which its packet arrived.
  [[nodiscard]] std::uint8_t management_port(std::uint8_t ingress) const noexcept {
    return is_switch() ? std::uint8_t{0} : ingress;
  }
  [[nodiscard]] bool is_external(std::uint8_t number) const noexcept {
    return is_switch() && number != 0;
  }
  [[nodiscard]] SwitchPart& switch_part() noexcept { return *switch_part_; }
  [[nodiscard]] const SwitchPart& switch_part() const noexcept { return *switch_part_; }
  [[nodiscard]] wire::NodeInfo info(std::uint8_t ingress) const noexcept;
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  void set_description(std::string description) { description_ = std::move(description); }
  /// Whether PortInfo shows speeds above QDR only to those who ask for them by bit 31 of the
  /// modifier, as the specification has it. Programs for diagnosis do not ask.
  [[nodiscard]] bool hides_extended_speeds() const noexcept { return hides_extended_speeds_; }
  void set_hides_extended_speeds(bool hides) noexcept { hides_extended_speeds_ = hides; }

  [[nodiscard]] const SwitchPart::LaneMap& lane_map(std::uint8_t in,
                                                    std::uint8_t out) const noexcept {
    if (!is_switch()) return adapter_lanes_[out];
    const auto& maps = switch_part_->lane_maps;
    return maps.empty() ? kFirstLanes : maps[lane_map_index(in, out)];
  }
  void set_lane_map(std::uint8_t in, std::uint8_t out, const SwitchPart::LaneMap& map);

  /// The port through which a switch sends packets to a unicast LID.
  [[nodiscard]] std::optional<std::uint8_t> route_of(wire::Lid lid) const noexcept {
    if (ports_.front().has_lid(lid)) return std::uint8_t{0};
    if (static_cast<std::uint16_t>(lid) > switch_part_->info.linear_top) return std::nullopt;
    const auto port = switch_part_->tables.port_of(lid);
    if (!port || *port > port_count_) return std::nullopt;
    return port;
  }
  /// The ports of a multicast LID: a switch sends a packet that arrived at `ingress` through them,
  /// but not through `ingress`, which may be one of them.
  [[nodiscard]] PortSet ports_of(wire::Lid multicast_lid, std::uint8_t ingress) const noexcept;

  /// Reports an event to the subnet manager of the port, if there is one that wants it. Number,
  /// type, details are the notice's; the rest is filled in.
  void raise_trap(Instant now, std::uint8_t port, wire::Notice notice, std::uint8_t subject = 0);
  [[nodiscard]] TrapQueue& traps() noexcept { return traps_; }
  [[nodiscard]] const TrapQueue& traps() const noexcept { return traps_; }

 private:
  [[nodiscard]] bool has_entry(wire::Lid multicast_lid) const noexcept;
  [[nodiscard]] std::size_t lane_map_index(std::uint8_t in, std::uint8_t out) const noexcept {
    return std::size_t{in} * ports_.size() + out;
  }

  wire::NodeInfo info_{};  // as seen through no port
  std::uint8_t port_count_ = 0;
  std::string description_;
  bool hides_extended_speeds_ = false;
  std::vector<Port> ports_;                         // by number; 0 of an adapter has its lanes only
  std::vector<SwitchPart::LaneMap> adapter_lanes_;  // of an adapter, by port
  std::optional<SwitchPart> switch_part_;
  TrapQueue traps_;
};

}  // namespace verbatim::fabric
