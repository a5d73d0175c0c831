// SPDX-License-Identifier: Apache-2.0
// How the messages of connections leave: through the link, or to another process of this address.
#include <algorithm>
#include <array>
#include <span>
#include <variant>

#include "connect/general_services.h"
#include "device/clock.h"
#include "device/forwarded_packet.h"
#include "host/service_name.h"
#include "loop/dispatch.h"
#include "wire/crc/icrc.h"
#include "wire/headers/flow_entropy.h"
#include "wire/headers/packet_builder.h"

namespace verbatim::connect {

wire::PacketHeaders GeneralServices::next_headers() noexcept {
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
  headers.bth.migrated = true;
  headers.bth.pkey = parts_.port.default_pkey();
  headers.bth.dest_qp = wire::QpNumber::kGsi;
  headers.bth.psn = next_psn_;
  headers.deth = {.qkey = wire::QKey::kGsi, .source_qp = wire::QpNumber::kGsi};
  next_psn_ = next_psn_ + 1;
  return headers;
}

/// Within a subnet packets have a local route and no GIDs.
void GeneralServices::transmit(const cm::Datagram& datagram) noexcept {
  const cm::Address& address = datagram.address;
  link::Outgoing to{.local = address.route};
  if (!address.route.exists()) {
    to.source = address.local;
    to.destination = address.remote;
    to.source_port = parts_.network.source_port(
        address.local, wire::source_port_of_datagrams(wire::QpNumber::kGsi));
  }
  const auto seed = wire::IcrcSeed::of(to.local, to.source, to.destination, to.source_port);
  auto headers = next_headers();

  link::Incoming as_received;
  as_received.source = to.source;
  as_received.destination = to.destination;
  as_received.source_port = to.source_port;
  as_received.hop_limit = 64;
  as_received.local = to.local;
  std::array<std::byte, 512> packet{};
  wire::PacketBuilder builder(packet, headers, datagram.octets.size(), {.seed = &seed});
  builder.append(datagram.octets);
  as_received.octets = std::span(packet).first(builder.finish());
  if (hand_over(datagram, as_received)) return;

  const auto frame = parts_.link->next_frame();
  if (frame.octets.size() < packet.size()) return;
  wire::PacketBuilder framed(frame.octets, headers, datagram.octets.size(),
                             {.seed = &seed, .ipv4_identification = frame.identification});
  framed.append(datagram.octets);
  parts_.link->commit(device::now(), to, framed.finish());
}

bool GeneralServices::is_here(const cm::Address& to) const noexcept {
  const auto& gids = parts_.port.gids;
  if (!to.route.exists() || !parts_.port.fabric) {
    return std::ranges::any_of(
        gids, [&](const device::GidEntry& entry) { return entry.gid == to.remote; });
  }
  const auto first = static_cast<unsigned>(parts_.port.fabric->lid);
  const auto lid = static_cast<unsigned>(to.route.destination);
  return lid >= first && lid < first + (1U << parts_.port.fabric->lmc);
}

link::SharedPort::SlotUser GeneralServices::user_of_slot(std::uint32_t slot,
                                                         const wire::Gid& address) const noexcept {
  return parts_.network.user_of(parts_.port, address, slot);
}

/// Sends a datagram to a process of the same address without the network. If there is none, this
/// process handles the datagram as if it had arrived. False when it is to be sent by the network:
/// the queue of the other process is full.
bool GeneralServices::hand_over(const cm::Datagram& datagram,
                                const link::Incoming& as_received) noexcept {
  if (!is_here(datagram.address)) return false;
  const wire::Gid at = local_of(as_received);
  const auto octets = device::pack_forwarded(as_received, message_);
  const auto message = std::span<const std::byte>(message_).first(octets);
  const wire::Addressee to = wire::addressee_of(datagram.octets);
  Status sent = Ok{};
  if (const auto* id = std::get_if<wire::CommId>(&to)) {
    const std::uint32_t slot = wire::slot_of(*id);
    const bool is_this_users = user_of_slot(slot, at) == link::SharedPort::SlotUser::kThisUser;
    if (!is_this_users) return false;  // the kernel steers the datagram
    sent = parts_.slot.forward(slot, message);
  } else if (const auto* service = std::get_if<wire::ServiceId>(&to)) {
    sent = host::ServiceName::forward(parts_.slot.descriptor(), service_at(at, *service), message);
  } else {
    return false;
  }
  if (sent) return true;
  if (sent.error() != Errc::kNoSuchObject) return false;
  // A request goes by the network to a process of the user that has the port, which hands it over.
  const bool is_request = std::holds_alternative<wire::ServiceId>(to);
  if (is_request && parts_.network.lender_at(at)) return false;
  parts_.dispatch.handle(as_received, loop::ArrivedBy::kLink, device::now());
  return true;
}

}  // namespace verbatim::connect
