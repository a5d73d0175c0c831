// SPDX-License-Identifier: Apache-2.0
// What the subnet manager of the tests writes: LIDs, linear tables, states of ports.
#include <algorithm>
#include <deque>
#include <limits>

#include "base/byte_order.h"
#include "sim/fabric/subnet_manager.h"

namespace verbatim::fabric::test {
namespace {

constexpr std::size_t kUnreachable = std::numeric_limits<std::size_t>::max();
constexpr std::uint8_t kNoRoute = 0xff;
constexpr unsigned kMaskPorts = 16;
constexpr std::size_t kBlock = wire::Smp::kDataSize;  // entries of a table in one packet

}  // namespace

void SubnetManager::configure() {
  for (End& end : ends_) {
    const auto next = wire::Lid{static_cast<std::uint16_t>(lids_.size() + 1)};
    end.lid = lids_.try_emplace(end.info.port_guid, next).first->second;
  }
  std::vector<Distances> distances;
  for (std::size_t to = 0; to < ends_.size(); ++to) distances.push_back(distances_to(to));
  for (std::size_t end = 0; end < ends_.size(); ++end) {
    set_port_info(end, ends_[end].base_port, wire::PortState::kNoChange);
    if (!ends_[end].is_switch()) continue;
    write_tables(end, distances);
    write_group(end, distances.front());
  }
}

void SubnetManager::write_tables(std::size_t end, const std::vector<Distances>& distances) {
  const std::vector<std::uint8_t> table = table_of(end, distances);
  for (std::size_t block = 0; block * kBlock < table.size(); ++block) {
    Request request{.path = ends_[end].path,
                    .method = wire::MadMethod::kSet,
                    .attribute = wire::SmpAttribute::kLinearForwardingTable,
                    .modifier = static_cast<std::uint32_t>(block),
                    .end = end};
    for (std::size_t entry = 0; entry < kBlock; ++entry) {
      request.data[entry] = std::byte{table[block * kBlock + entry]};
    }
    ask(request);
  }
  Request request{.path = ends_[end].path,
                  .method = wire::MadMethod::kSet,
                  .attribute = wire::SmpAttribute::kSwitchInfo,
                  .end = end};
  wire::SwitchInfo info = ends_[end].switch_info;
  info.linear_top = static_cast<std::uint16_t>(table.size() - 1);
  info.port_state_change = false;
  info.emit(request.data);
  ask(request);
}

/// The first entry of each mask is kGroup's.
void SubnetManager::write_group(std::size_t end, const Distances& distances) {
  const std::vector<std::uint16_t> masks = masks_of_group(end, distances);
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    Request request{.path = ends_[end].path,
                    .method = wire::MadMethod::kSet,
                    .attribute = wire::SmpAttribute::kMulticastForwardingTable,
                    .modifier = static_cast<std::uint32_t>(mask << 28),
                    .end = end};
    store_be_at(request.data.data(), masks[mask]);
    ask(request);
  }
}

/// The group is a tree: the shortest ways of all ends to the first one, whose `distances` these
/// are.
std::vector<std::uint16_t> SubnetManager::masks_of_group(std::size_t end,
                                                         const Distances& distances) const {
  std::vector<std::uint16_t> masks(ends_[end].info.port_count / kMaskPorts + 1U);
  const std::uint8_t own_way = port_towards(end, 0, distances);
  for (const auto& [number, port] : ends_[end].ports) {
    const auto& neighbor = port.neighbor;
    const bool is_way_of_neighbor =
        neighbor && port_towards(neighbor->end, 0, distances) == neighbor->port;
    if (number != own_way && !is_way_of_neighbor) continue;
    masks[number / kMaskPorts] |= static_cast<std::uint16_t>(1U << (number % kMaskPorts));
  }
  return masks;
}

std::vector<std::uint8_t> SubnetManager::table_of(std::size_t from,
                                                  const std::vector<Distances>& distances) const {
  const std::size_t blocks = lids_.size() / kBlock + 1;
  std::vector<std::uint8_t> table(blocks * kBlock, kNoRoute);
  for (std::size_t to = 0; to < ends_.size(); ++to) {
    table[static_cast<std::size_t>(ends_[to].lid)] = port_towards(from, to, distances[to]);
  }
  return table;
}

SubnetManager::Distances SubnetManager::distances_to(std::size_t end) const {
  Distances distances(ends_.size(), kUnreachable);
  std::deque<std::size_t> next{end};
  distances[end] = 0;
  while (!next.empty()) {
    const std::size_t here = next.front();
    next.pop_front();
    if (here != end && !ends_[here].is_switch()) continue;  // adapters forward nothing
    for (const auto& [number, port] : ends_[here].ports) {
      if (!port.neighbor || distances[port.neighbor->end] != kUnreachable) continue;
      distances[port.neighbor->end] = distances[here] + 1;
      next.push_back(port.neighbor->end);
    }
  }
  return distances;
}

std::uint8_t SubnetManager::port_towards(std::size_t from, std::size_t to,
                                         const Distances& distances) const {
  if (from == to) return 0;
  if (distances[from] == kUnreachable) return kNoRoute;
  std::vector<std::uint8_t> ports;
  for (const auto& [number, port] : ends_[from].ports) {
    if (!port.neighbor || distances[port.neighbor->end] == kUnreachable) continue;
    const bool may_pass = port.neighbor->end == to || ends_[port.neighbor->end].is_switch();
    if (may_pass && distances[port.neighbor->end] + 1 == distances[from]) ports.push_back(number);
  }
  if (ports.empty()) return kNoRoute;
  return ports[static_cast<std::size_t>(ends_[to].lid) % ports.size()];
}

void SubnetManager::set_states(wire::PortState state) {
  const auto before = static_cast<wire::PortState>(static_cast<unsigned>(state) - 1);
  for (std::size_t end = 0; end < ends_.size(); ++end) {
    for (const auto& [number, port] : ends_[end].ports) {
      const bool is_base_of_switch = number == 0;
      if (is_base_of_switch || !port.neighbor || !port.info || port.info->state != before) continue;
      set_port_info(end, number, state);
    }
  }
}

void SubnetManager::set_port_info(std::size_t end, std::uint8_t port, wire::PortState state) {
  const EndPort& about = ends_[end].ports[port];
  if (!about.info) return;
  wire::PortInfo info = *about.info;
  info.state = state;
  info.physical_state = wire::PortPhysicalState::kNoChange;
  info.down_default = 0;
  info.sm_lid = ends_.front().lid;
  if (port == ends_[end].base_port) info.lid = ends_[end].lid;
  if (about.neighbor) {
    const EndPort& neighbor = ends_[about.neighbor->end].ports[about.neighbor->port];
    if (neighbor.info) {
      info.neighbor_mtu = std::min(info.mtu_limit, neighbor.info->mtu_limit);
      info.operational_vls = std::min(info.vl_limit, neighbor.info->vl_limit);
    }
  }
  Request request{.path = ends_[end].path,
                  .method = wire::MadMethod::kSet,
                  .attribute = wire::SmpAttribute::kPortInfo,
                  .modifier = wire::PortInfo::kExtendedSpeedsModifier | port,
                  .end = end};
  info.emit(request.data);
  ask(request);
}

}  // namespace verbatim::fabric::test
