// SPDX-License-Identifier: Apache-2.0
#include "device/udp_network.h"

#include <utility>
#include <vector>

#include "host/adapter_guard.h"
#include "loop/multicast_table.h"

namespace verbatim::device {

Expected<host::Slot> UdpNetwork::open(const PortInfo& port, const LinkConfig& config,
                                      std::string& message) {
  std::vector<link::LocalAddress> addresses;
  for (const GidEntry& entry : port.gids) {
    addresses.push_back({.gid = entry.gid, .scope = entry.interface_index});
  }
  link::SharedPort::Options options;
  options.lends = config.lends_sockets;
  auto place = shared_port_.join(addresses, message, options);
  if (!place) {
    message = port.interface + ": " + message;
    return place.error();
  }
  auto opened = link_.open(std::move(place->receivers), place->slot.number(), config.trains);
  if (opened) return std::move(place->slot);
  shared_port_.leave();  // before the slot is given up
  message = port.interface + (opened.error() == Errc::kNoMemory
                                  ? ": no descriptor is left for UDP sockets; raise `ulimit -n`"
                                  : ": no UDP ports are left to send from; end other programs");
  return opened.error();
}

Expected<transport::Path> UdpNetwork::path_to(const PortInfo& port,
                                              const Destination& to) const noexcept {
  if (!to.is_global || to.gid_index >= port.gids.size()) return Errc::kInvalidArgument;
  if (port.gids[to.gid_index].gid == wire::Gid{}) return Errc::kInvalidArgument;  // removed
  transport::Path path;
  path.source = port.gids[to.gid_index].gid;
  path.destination = loop::group_address(to.gid);
  if (path.source.is_ipv4_mapped() != path.destination.is_ipv4_mapped()) {
    return Errc::kInvalidArgument;
  }
  if (to.gid == wire::Gid{}) return Errc::kInvalidArgument;
  path.source_port = link_.source_port(path.source, to.entropy);
  path.traffic_class = to.traffic_class;
  path.hop_limit = to.hop_limit == 0 ? 64 : to.hop_limit;
  path.flow_label = to.flow_label;
  path.refresh_seed();
  return path;
}

Status UdpNetwork::add_address(host::AdapterLock& lock, const PortInfo& port, std::uint32_t slot,
                               const wire::Gid& address) {
  const link::LocalAddress wanted{.gid = address, .scope = port.interface_index};
  std::string message;
  auto receivers = shared_port_.extend({&wanted, 1}, slot, message);
  if (!receivers) return receivers.error();
  if (receivers->empty()) return Errc::kNoDevice;
  const host::AdapterGuard guard(lock);
  return link_.add(std::move(receivers->front()));
}

}  // namespace verbatim::device
