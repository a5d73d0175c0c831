// SPDX-License-Identifier: Apache-2.0
// What a MadPort does with the datagrams that arrive.
#include <algorithm>
#include <span>
#include <utility>

#include "fabric/mads/mad_arrival.h"
#include "fabric/mads/mad_port.h"
#include "fabric/mads/mad_rules.h"

namespace verbatim::fabric {

namespace {

/// The index of the first key of the port that is of the partition of the packet.
[[nodiscard]] std::optional<std::uint16_t> pkey_index_of(const PortIdentity& identity,
                                                         const ManagementPacket& packet) noexcept {
  if (packet.is_subnet_management()) return std::uint16_t{0};
  const auto found = std::ranges::find_if(
      identity.pkeys, [&](wire::PKey pkey) { return wire::pkeys_match(pkey, packet.pkey); });
  if (found == identity.pkeys.end()) return std::nullopt;
  return static_cast<std::uint16_t>(found - identity.pkeys.begin());
}

[[nodiscard]] MadAddress source_of(const ManagementPacket& packet,
                                   const PortIdentity& identity) noexcept {
  const auto path_mask = (1U << identity.lmc) - 1;
  MadAddress address{.lid = packet.source, .qpn = packet.source_qp, .level = packet.level};
  if (packet.destination != wire::Lid::kPermissive) {
    address.path_bits =
        static_cast<std::uint8_t>(static_cast<std::uint16_t>(packet.destination) & path_mask);
  }
  if (!packet.global_route) return address;
  const auto gid = std::ranges::find(identity.gids, packet.global_route->destination);
  address.has_grh = true;
  address.gid_index = gid == identity.gids.end()
                          ? std::uint8_t{0}
                          : static_cast<std::uint8_t>(gid - identity.gids.begin());
  address.hop_limit = packet.global_route->hop_limit;
  address.traffic_class = packet.global_route->traffic_class;
  address.flow_label = packet.global_route->flow_label;
  address.gid = packet.global_route->source;
  return address;
}

}  // namespace

MadVerdict MadPort::handle_packet(Instant now, const ManagementPacket& packet) {
  const MadVerdict verdict = judge(now, packet);
  ++counters_.received[static_cast<std::size_t>(verdict)];
  return verdict;
}

MadVerdict MadPort::judge(Instant now, const ManagementPacket& packet) {
  const auto mad = packet.view();
  if (!mad) return MadVerdict::kMalformed;
  const auto pkey_index = pkey_index_of(identity_, packet);
  if (!pkey_index) return MadVerdict::kBadPKey;
  const MadAgent* const agent = agents_.find(packet.dest_qp, *mad);
  if (agent == nullptr) return MadVerdict::kUnclaimed;
  if (deliveries_.size() >= kWaitingDeliveriesMax) return MadVerdict::kNoRoom;
  const Arrival arrival{*agent, packet, *mad, *pkey_index};
  const bool is_segment = wire::has_rmpp(mad->mgmt_class()) && wire::RmppView(*mad).is_active();
  if (is_segment && agent->registration.rmpp == RmppMode::kPort) return handle_rmpp(now, arrival);
  return handle_alone(arrival, is_segment);
}

MadVerdict MadPort::handle_alone(const Arrival& arrival, bool is_segment) {
  // A program that handles segments itself gets all of them; only the first one finds its request.
  const bool needs_request = is_response(arrival.mad) && !is_segment;
  if (needs_request && !sends_.contains(arrival.request())) return MadVerdict::kUnmatched;
  if (is_response(arrival.mad)) sends_.erase(arrival.request());
  const auto octets = arrival.mad.octets();
  return deliver(arrival, {octets.begin(), octets.end()});
}

MadVerdict MadPort::deliver(const Arrival& arrival, std::vector<std::byte> octets) {
  deliveries_.push_back({.client = arrival.agent.client,
                         .mad = {.agent = arrival.agent.id,
                                 .pkey_index = arrival.pkey_index,
                                 .address = source_of(arrival.packet, identity_),
                                 .octets = std::move(octets)}});
  return MadVerdict::kDelivered;
}

}  // namespace verbatim::fabric
