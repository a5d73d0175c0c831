// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "wire/cm/cm_message.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"
#include "wire/headers/packet_builder.h"

/// Nothing but tests includes this.
namespace verbatim::tools::test {

/// A native packet to queue pair 1 with this message.
inline std::vector<std::byte> packet_with(const wire::CmMessage& message,
                                          const wire::LocalRoute& route = {},
                                          bool is_global = false) {
  std::array<std::byte, wire::Mad::kSize> octets;
  wire::emit(message, octets);
  const std::size_t before = wire::Lrh::kSize + (is_global ? wire::Grh::kSize : 0);
  std::vector<std::byte> packet(512);
  wire::PacketHeaders headers;
  headers.bth.opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
  headers.bth.dest_qp = wire::QpNumber::kGsi;
  headers.deth = {.qkey = wire::QKey::kGsi, .source_qp = wire::QpNumber::kGsi};
  const auto seed = wire::IcrcSeed::native(route);
  const std::span<std::byte> room = std::span(packet).subspan(before);
  wire::PacketBuilder builder(room, headers, octets.size(), {.seed = &seed});
  builder.append(octets);
  packet.resize(before + builder.finish());
  wire::Lrh{.next_header = is_global ? wire::LinkNextHeader::kGrh : wire::LinkNextHeader::kBth,
            .destination = route.destination,
            .packet_words = static_cast<std::uint16_t>(packet.size() / 4),
            .source = route.source}
      .emit(std::span(packet).first<wire::Lrh::kSize>());
  return packet;
}

}  // namespace verbatim::tools::test
