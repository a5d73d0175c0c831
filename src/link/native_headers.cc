// SPDX-License-Identifier: Apache-2.0
#include "link/native_headers.h"

#include <cstdint>

namespace verbatim::link {

std::size_t write_native_headers(const Outgoing& to, std::size_t transport_octets,
                                 std::span<std::byte> into) noexcept {
  const bool is_global = to.destination != wire::Gid{};
  const std::size_t octets = wire::Lrh::kSize + (is_global ? wire::Grh::kSize : 0);
  wire::Lrh{.level = to.local.level,
            .next_header = is_global ? wire::LinkNextHeader::kGrh : wire::LinkNextHeader::kBth,
            .destination = to.local.destination,
            .packet_words = static_cast<std::uint16_t>((octets + transport_octets) / 4),
            .source = to.local.source}
      .emit(into.first<wire::Lrh::kSize>());
  if (!is_global) return octets;
  wire::Grh{.traffic_class = to.traffic_class,
            .flow_label = to.flow_label,
            .payload_octets = static_cast<std::uint16_t>(transport_octets),
            .hop_limit = to.hop_limit,
            .source = to.source,
            .destination = to.destination}
      .emit(into.subspan<wire::Lrh::kSize, wire::Grh::kSize>());
  return octets;
}

}  // namespace verbatim::link
