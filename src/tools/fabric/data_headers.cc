// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/data_headers.h"

#include "wire/headers/bth.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/opcode.h"
#include "wire/headers/packet.h"

namespace verbatim::tools {
namespace {

bool is_for_programs(const wire::LrhView& lrh, std::size_t octets) noexcept {
  const bool has_transport = lrh.next_header() == wire::LinkNextHeader::kBth ||
                             lrh.next_header() == wire::LinkNextHeader::kGrh;
  return has_transport && lrh.lane() != wire::VirtualLane::kManagement &&
         std::size_t{4} * lrh.packet_words() == octets;
}

std::optional<wire::QpNumber> source_of(std::span<const std::byte> transport,
                                        wire::Opcode opcode) noexcept {
  const bool has_deth = wire::describe(opcode).has(wire::OpcodeInfo::kDeth);
  if (!has_deth || transport.size() < wire::Bth::kSize + wire::Deth::kSize) return std::nullopt;
  return wire::Deth::from(transport.subspan<wire::Bth::kSize, wire::Deth::kSize>()).source_qp;
}

}  // namespace

std::optional<fabric::DataPacket> data_packet_of(std::span<const std::byte> start,
                                                 std::size_t octets) noexcept {
  const auto lrh = wire::LrhView::parse(start);
  if (!lrh || !is_for_programs(*lrh, octets)) return std::nullopt;
  const bool is_global = lrh->next_header() == wire::LinkNextHeader::kGrh;
  std::size_t headers = wire::Lrh::kSize;
  if (is_global) {
    const auto grh = wire::GrhView::parse(start.subspan(headers));
    if (!grh || grh->next_header() != wire::Grh::kIbaTransport) return std::nullopt;
    headers += wire::Grh::kSize;
    if (headers + grh->payload_octets() != octets) return std::nullopt;
  }
  if (octets < headers + wire::Bth::kSize + wire::kIcrcSize) return std::nullopt;
  const auto transport = start.subspan(headers);
  const auto bth = wire::BthView::parse(transport);
  if (!bth || bth->dest_qp() == wire::QpNumber::kSmi) return std::nullopt;
  const fabric::DataPacket packet{.source = lrh->source(),
                                  .destination = lrh->destination(),
                                  .level = lrh->level(),
                                  .pkey = bth->pkey(),
                                  .dest_qp = bth->dest_qp(),
                                  .opcode = bth->opcode(),
                                  .words = lrh->packet_words(),
                                  .is_global = is_global,
                                  .source_qp = source_of(transport, bth->opcode())};
  // A packet to a group names no queue pair but 0xffffff: only members of the group get it.
  const bool names_member =
      packet.header().is_multicast() && packet.dest_qp != wire::QpNumber::kMulticast;
  if (names_member) return std::nullopt;
  return packet;
}

}  // namespace verbatim::tools
