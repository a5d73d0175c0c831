// SPDX-License-Identifier: Apache-2.0
#include "device/fabric_network.h"

#include <algorithm>
#include <utility>

#include "device/fabric_ports.h"
#include "host/fabric_choice.h"
#include "host/runtime_directory.h"

namespace verbatim::device {
namespace {

constexpr const char* kNoSlot =
    "no slot is free at this node, or no directory for its processes; `verbatim doctor` says which";

/// What a fabric does not have yet. Empty: nothing of it is asked for.
std::string objection_to(const LinkConfig& config) {
  if (config.path == DataPathPolicy::kDirect) {
    return "VERBATIM_PATH=direct: in a fabric all data travels in packets; unset the variable";
  }
  return {};
}

/// The LID that packets of this port have as their source; kReserved: the port has none. Of the
/// path bits only as many count as the port has (IBA Vol 1, 7.11.1), as in adapters.
wire::Lid source_lid(const FabricPort& port, std::uint8_t path_bits) noexcept {
  if (port.lid == wire::Lid::kReserved) return port.lid;
  const unsigned mask = (1U << port.lmc) - 1;
  return wire::Lid{
      static_cast<std::uint16_t>(static_cast<unsigned>(port.lid) | (path_bits & mask))};
}

}  // namespace

Expected<host::Slot> FabricNetwork::open(const PortInfo& port, const LinkConfig& config,
                                         std::string& message) {
  message = objection_to(config);
  if (!message.empty()) return Errc::kNotSupported;
  const auto choice = host::FabricChoice::read(message);
  if (!choice) return choice.error();
  host::RuntimeDirectory::enter(choice->place.folder(), port.fabric->node_number);
  auto slot = host::Slot::claim();
  if (!slot) {
    message = host::RuntimeDirectory::explain();
    if (message.empty()) message = kNoSlot;
    return slot.error();
  }
  auto opened = data_.open(choice->place, choice->node,
                           {.port = port.fabric->number, .slot = slot->number()}, message);
  if (!opened) return opened.error();
  remember(port);
  slot_ = slot->number();
  services_.clear();
  link_.open();
  return slot;
}

Expected<transport::Path> FabricNetwork::path_to(const PortInfo& port,
                                                 const Destination& to) const noexcept {
  const wire::Lid source = source_lid(*port.fabric, to.path_bits);
  if (source == wire::Lid::kReserved || to.lid == wire::Lid::kReserved) {
    return Errc::kInvalidArgument;
  }
  transport::Path path;
  path.local = {.source = source, .destination = to.lid, .level = to.level, .rate = to.rate};
  if (to.is_global) {
    if (to.gid_index >= port.gids.size() || port.gids[to.gid_index].gid == wire::Gid{} ||
        to.gid == wire::Gid{}) {
      return Errc::kInvalidArgument;
    }
    path.source = port.gids[to.gid_index].gid;
    path.destination = to.gid;
    path.traffic_class = to.traffic_class;
    path.hop_limit = to.hop_limit;
    path.flow_label = to.flow_label;
  }
  path.refresh_seed();
  return path;
}

void FabricNetwork::report(transport::KeyViolation violation,
                           const transport::Arrival& arrival) noexcept {
  const wire::BthView& bth = arrival.packet.bth();
  const bool has_deth = arrival.packet.info().has(wire::OpcodeInfo::kDeth);
  const bool is_pkey = violation == transport::KeyViolation::kPKey;
  host::FabricKeyViolation told{
      .key = static_cast<std::uint32_t>(bth.pkey()),
      .dest_qp = static_cast<std::uint32_t>(bth.dest_qp()),
      .source_lid = static_cast<std::uint16_t>(arrival.local.source),
      .destination_lid = static_cast<std::uint16_t>(arrival.local.destination),
      .service_level = static_cast<std::uint8_t>(arrival.local.level),
      .source_gid = arrival.source.octets,
      .destination_gid = arrival.destination.octets};
  if (has_deth) told.source_qp = static_cast<std::uint32_t>(arrival.packet.deth().source_qp);
  if (!is_pkey) told.key = static_cast<std::uint32_t>(arrival.packet.deth().qkey);
  data_.report(is_pkey ? host::FabricKey::kPKey : host::FabricKey::kQKey, told);
}

bool FabricNetwork::has_address(const wire::Gid& address) const noexcept {
  return std::ranges::find(gids_, address) != gids_.end();
}

/// Services are held at the first address of the port.
void FabricNetwork::steer(const wire::Gid& local, std::span<const link::ServiceRoute> routes,
                          std::uint32_t) noexcept {
  if (gids_.empty() || local != gids_.front()) return;
  std::vector<std::uint32_t> now;
  for (const link::ServiceRoute& route : routes) {
    if (route.slot == slot_) now.push_back(route.service);
  }
  const auto tell_others = [&](const auto& of, const auto& known, bool listens) {
    for (const std::uint32_t service : of) {
      const bool is_known = std::ranges::find(known, service) != known.end();
      if (!is_known) (void)data_.tell_claim(service, listens);  // else the first process forwards
    }
  };
  tell_others(services_, now, false);
  tell_others(now, services_, true);
  services_ = std::move(now);
}

void FabricNetwork::remember(const PortInfo& port) {
  gids_.clear();
  for (const GidEntry& entry : port.gids) gids_.push_back(entry.gid);
}

std::optional<PortInfo> FabricNetwork::take_notice(const PortInfo& port) noexcept {
  const bool has_changed = data_.take_change();
  PortInfo now = port;
  if (data_.has_ended()) {
    now.fabric.reset();
    return now;
  }
  const auto state = has_changed ? data_.state() : std::nullopt;
  if (!state) return std::nullopt;
  now = fabric_port_of(port.fabric->node, {.node = data_.node(), .state = *state});
  remember(now);
  return now;
}

}  // namespace verbatim::device
