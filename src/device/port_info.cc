// SPDX-License-Identifier: Apache-2.0
#include "device/port_info.h"

#include <algorithm>

#include "device/fabric_ports.h"

namespace verbatim::device {

namespace {

constexpr std::uint32_t kHeaderOctets = 80;  // of rdma_rxe: GRH, the longest headers, ICRC

/// EUI-64 with the "universal" bit inverted, as IPv6 makes an interface identifier from a MAC
/// address.
std::array<std::uint8_t, 8> guid_of_mac(const std::array<std::uint8_t, 6>& mac) noexcept {
  return {
      static_cast<std::uint8_t>(mac[0] ^ 0x02), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

/// For an interface without a MAC address: the same at every start, different for each interface,
/// and never zero. The "universal" bit is not set, so no real device has this GUID.
std::array<std::uint8_t, 8> made_up_guid(const Interface& interface) noexcept {
  std::uint32_t hash = 0x811c'9dc5;  // FNV-1a
  for (const char c : interface.name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x0100'0193U;
  const std::uint32_t index = interface.index;
  return {'v' & 0xfd,
          'b',
          static_cast<std::uint8_t>(index >> 8),
          static_cast<std::uint8_t>(index),
          static_cast<std::uint8_t>(hash >> 24),
          static_cast<std::uint8_t>(hash >> 16),
          static_cast<std::uint8_t>(hash >> 8),
          static_cast<std::uint8_t>(hash)};
}

wire::Gid link_local_of(const std::array<std::uint8_t, 8>& guid) noexcept {
  wire::Gid gid;
  gid.octets[0] = 0xfe;
  gid.octets[1] = 0x80;
  std::copy(guid.begin(), guid.end(), gid.octets.begin() + 8);
  return gid;
}

PortInfo port_of(const Interface& interface) {
  PortInfo port;
  port.interface = interface.name;
  port.interface_index = interface.index;
  port.guid = interface.mac ? guid_of_mac(*interface.mac) : made_up_guid(interface);
  port.mac = interface.mac;
  port.interface_mtu = interface.mtu;
  port.active_mtu = active_mtu_of(interface.mtu);
  port.speed_mbps = interface.speed_mbps;
  port.is_up = interface.is_up && interface.is_running;
  const auto add = [&](const wire::Gid& gid) {
    port.gids.push_back({.gid = gid, .interface_index = interface.index});
  };
  const wire::Gid first = link_local_of(port.guid);
  add(first);
  for (const wire::Gid& gid : interface.ipv4) add(gid);
  for (const wire::Gid& gid : interface.ipv6) add(gid);
  for (const wire::Gid& gid : interface.link_local) {
    if (gid != first) add(gid);
  }
  return port;
}

bool is_fit(const Interface& interface) noexcept {
  return interface.is_up && interface.is_running && !interface.is_loopback &&
         !interface.is_bridge && has_usable_address(interface);
}

/// All suitable interfaces, that of the default route first; the loopback interface if there is
/// none.
std::vector<PortInfo> ports_by_default(const std::vector<Interface>& interfaces) {
  std::vector<PortInfo> ports;
  for (const bool has_default_route : {true, false}) {
    for (const Interface& interface : interfaces) {
      if (is_fit(interface) && interface.has_default_route == has_default_route) {
        ports.push_back(port_of(interface));
      }
    }
  }
  if (!ports.empty()) return ports;
  for (const Interface& interface : interfaces) {
    if (interface.is_up && interface.is_loopback && has_usable_address(interface)) {
      ports.push_back(port_of(interface));
    }
  }
  return ports;
}

/// The interfaces that are named, in that order. An interface that is down gives a port that is
/// down.
std::vector<PortInfo> ports_named(const std::vector<Interface>& interfaces, const Config& config) {
  std::vector<PortInfo> ports;
  for (const Config::Wanted& wanted : config.devices) {
    for (const Interface& interface : interfaces) {
      if (interface.name != wanted.interface || !has_usable_address(interface)) continue;
      ports.push_back(port_of(interface));
      ports.back().name = wanted.name;
    }
  }
  return ports;
}

/// Gives the next of vb0, vb1, ... to every port without a name.
void number_the_nameless(std::vector<PortInfo>& ports) {
  std::uint32_t next = 0;
  for (PortInfo& port : ports) {
    while (port.name.empty()) {
      std::string name = "vb" + std::to_string(next++);
      const bool taken = std::any_of(ports.begin(), ports.end(),
                                     [&](const PortInfo& other) { return other.name == name; });
      if (!taken) port.name = std::move(name);
    }
  }
}

}  // namespace

bool has_usable_address(const Interface& interface) noexcept {
  return !interface.ipv4.empty() || !interface.ipv6.empty();
}

LinkRate link_rate_of(std::uint32_t mbps) noexcept {
  if (mbps >= 100'000) return {2, 32, "100 Gb/sec (4X EDR)"};
  if (mbps >= 40'000) return {2, 4, "40 Gb/sec (4X QDR)"};
  if (mbps >= 25'000) return {1, 32, "25 Gb/sec (1X EDR)"};
  if (mbps >= 10'000 || mbps == 0) return {1, 4, "10 Gb/sec (1X QDR)"};
  return {1, 1, "2.5 Gb/sec (1X)"};
}

wire::PathMtu active_mtu_of(std::uint32_t interface_mtu) noexcept {
  using enum wire::PathMtu;
  for (const wire::PathMtu mtu : {k4096, k2048, k1024, k512}) {
    if (wire::octets_of(mtu) + kHeaderOctets <= interface_mtu) return mtu;
  }
  return k256;
}

wire::PKey PortInfo::default_pkey() const {
  const auto keys = pkeys();
  if (const auto at = index_of_partition(wire::PKey::kDefault)) return keys[*at];
  const auto used = std::ranges::find_if(keys, [](wire::PKey key) { return key != wire::PKey{}; });
  return used != keys.end() ? *used : wire::PKey::kDefault;
}

std::optional<std::uint16_t> PortInfo::index_of_partition(wire::PKey key) const {
  constexpr unsigned kPartition = 0x7fff;  // without the bit for full members
  const auto keys = pkeys();
  const auto found = std::ranges::find_if(keys, [&](wire::PKey each) {
    return ((static_cast<unsigned>(each) ^ static_cast<unsigned>(key)) & kPartition) == 0;
  });
  if (found == keys.end()) return std::nullopt;
  return static_cast<std::uint16_t>(found - keys.begin());
}

bool PortInfo::has(const wire::Gid& gid) const noexcept {
  return gid != wire::Gid{} && std::any_of(gids.begin(), gids.end(),
                                           [&](const GidEntry& entry) { return entry.gid == gid; });
}

namespace {

/// The port's interface as it is now; null when it does not exist any more, or another interface
/// has its name.
const Interface* interface_of(const PortInfo& port, const std::vector<Interface>& interfaces) {
  const auto found =
      std::find_if(interfaces.begin(), interfaces.end(), [&](const Interface& interface) {
        return interface.index == port.interface_index && interface.name == port.interface;
      });
  return found != interfaces.end() ? &*found : nullptr;
}

/// Stores the entry in the first hole, or after the others.
void add_gid(PortInfo& port, const wire::Gid& gid) {
  const auto hole = std::find_if(port.gids.begin(), port.gids.end(),
                                 [](const GidEntry& entry) { return entry.gid == wire::Gid{}; });
  if (hole != port.gids.end()) {
    hole->gid = gid;
  } else {
    port.gids.push_back({.gid = gid, .interface_index = port.interface_index});
  }
}

}  // namespace

namespace {

void note_state(PortChange& change, const PortInfo& before, const PortInfo& now) {
  change.went_up = now.is_up && !before.is_up;
  change.went_down = !now.is_up && before.is_up;
}

/// GIDs of `before` that stand in front of `first` are never lost.
void note_gids(PortChange& change, const PortInfo& before, const PortInfo& now, std::size_t first) {
  for (const GidEntry& entry : now.gids) {
    const bool is_new = entry.gid != wire::Gid{} && !before.has(entry.gid);
    if (is_new) change.gained.push_back(entry.gid);
  }
  for (std::size_t i = first; i < before.gids.size(); ++i) {
    const wire::Gid& gid = before.gids[i].gid;
    if (gid != wire::Gid{} && !now.has(gid)) change.lost.push_back(gid);
  }
}

}  // namespace

PortChange change_of(const PortInfo& before, const std::vector<Interface>& interfaces) {
  PortChange change;
  const Interface* interface = interface_of(before, interfaces);
  if (interface == nullptr) {
    change.is_gone = true;
    return change;
  }
  const PortInfo now = port_of(*interface);
  note_state(change, before, now);
  change.has_new_mac = now.mac != before.mac;
  change.has_new_details =
      now.interface_mtu != before.interface_mtu || now.speed_mbps != before.speed_mbps;
  note_gids(change, before, now, 1);  // the first one stays
  return change;
}

PortChange fabric_change_of(const PortInfo& before, const PortInfo& now) {
  PortChange change;
  if (!now.fabric || !before.fabric) {
    change.is_gone = true;
    return change;
  }
  const FabricPort& then = *before.fabric;
  const FabricPort& present = *now.fabric;
  note_state(change, before, now);
  if (present.outages != then.outages) {  // perhaps it is up again already
    change.went_down = before.is_up;
    change.went_up = now.is_up;
  }
  note_gids(change, before, now, 0);
  change.has_new_details =
      present != then || now.active_mtu != before.active_mtu || now.speed_mbps != before.speed_mbps;
  change.has_new_lid = present.lid != then.lid || present.lmc != then.lmc;
  change.has_new_sm = present.sm_lid != then.sm_lid || present.sm_level != then.sm_level;
  change.has_new_pkeys = present.pkeys != then.pkeys;
  change.wants_reregistration = present.reregister_requests != then.reregister_requests;
  return change;
}

namespace {

/// The verbs show the state of the port in the fabric, not PortInfo::is_up.
void note_gone(FabricPort& port) noexcept {
  constexpr std::uint8_t kDown = 1;      // PortState, IBA Vol 1, 14.2.5.6
  constexpr std::uint8_t kDisabled = 3;  // PortPhysicalState
  port.state = kDown;
  port.physical_state = kDisabled;
}

}  // namespace

PortInfo changed(const PortInfo& before, const PortChange& change,
                 const std::vector<Interface>& interfaces) {
  PortInfo after = before;
  const Interface* interface = interface_of(before, interfaces);
  if (change.is_gone || interface == nullptr) {
    after.is_up = false;
    after.gids.clear();
    if (after.fabric) note_gone(*after.fabric);
    return after;
  }
  const PortInfo now = port_of(*interface);
  after.mac = now.mac;
  after.interface_mtu = now.interface_mtu;
  after.active_mtu = now.active_mtu;
  after.speed_mbps = now.speed_mbps;
  after.is_up = now.is_up;
  for (GidEntry& entry : after.gids) {
    if (std::find(change.lost.begin(), change.lost.end(), entry.gid) != change.lost.end()) {
      entry.gid = {};
    }
  }
  for (const wire::Gid& gid : change.gained) add_gid(after, gid);
  return after;
}

std::vector<PortInfo> ports_of(const std::vector<Interface>& interfaces, const Config& config) {
  std::vector<PortInfo> ports =
      config.devices.empty() ? ports_by_default(interfaces) : ports_named(interfaces, config);
  number_the_nameless(ports);
  return ports;
}

Expected<std::vector<PortInfo>> find_ports(std::string& message) {
  if (is_on_fabric()) return find_fabric_ports(message);
  const auto config = read_config(message);
  if (!config) return config.error();
  return find_ports(*config);
}

std::vector<PortInfo> find_ports(const Config& config) {
  return ports_of(read_interfaces(), config);
}

}  // namespace verbatim::device
