// SPDX-License-Identifier: Apache-2.0
#include "fabric/taps/datagram_octets.h"

#include <algorithm>

#include "wire/headers/opcode.h"

namespace verbatim::fabric {

DatagramOctets::DatagramOctets(const ManagementPacket& packet, wire::VirtualLane lane) noexcept {
  const std::span<std::byte> all(octets_);
  wire::Lrh{
      .lane = lane,
      .level = packet.level,
      .next_header = packet.global_route ? wire::LinkNextHeader::kGrh : wire::LinkNextHeader::kBth,
      .destination = packet.destination,
      .packet_words = packet.header().words,
      .source = packet.source}
      .emit(all.first<wire::Lrh::kSize>());
  used_ = wire::Lrh::kSize;
  if (packet.global_route) {
    const GlobalRoute& route = *packet.global_route;
    wire::Grh{
        .traffic_class = route.traffic_class,
        .flow_label = route.flow_label,
        .payload_octets = wire::Bth::kSize + wire::Deth::kSize + wire::Mad::kSize + wire::kIcrcSize,
        .hop_limit = route.hop_limit,
        .source = route.source,
        .destination = route.destination}
        .emit(all.subspan<wire::Lrh::kSize, wire::Grh::kSize>());
    used_ += wire::Grh::kSize;
  }
  wire::Bth bth;
  bth.opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
  bth.pkey = packet.pkey;
  bth.dest_qp = packet.dest_qp;
  bth.emit(all.subspan(used_).first<wire::Bth::kSize>());
  used_ += wire::Bth::kSize;
  wire::Deth{.qkey = packet.qkey, .source_qp = packet.source_qp}.emit(
      all.subspan(used_).first<wire::Deth::kSize>());
  used_ += wire::Deth::kSize;
  std::ranges::copy(packet.mad, all.subspan(used_).begin());
  used_ += packet.mad.size();
  wire::store_icrc(all.subspan(used_).first<wire::kIcrcSize>(),
                   wire::icrc_of_native(all.first(used_)));
  used_ += wire::kIcrcSize;
}

}  // namespace verbatim::fabric
