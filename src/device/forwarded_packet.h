// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "link/packet_burst.h"
#include "wire/headers/ids.h"

namespace verbatim::device {

/// What precedes a packet that one process of the host forwards to another.
struct ForwardHeader {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  wire::LocalRoute local{};
  std::uint32_t flow_label = 0;
};

/// The octets written; 0 when they do not fit.
[[nodiscard]] inline std::size_t pack_forwarded(const link::Incoming& incoming,
                                                std::span<std::byte> into) noexcept {
  const ForwardHeader header{.source = incoming.source,
                             .destination = incoming.destination,
                             .source_port = incoming.source_port,
                             .traffic_class = incoming.traffic_class,
                             .hop_limit = incoming.hop_limit,
                             .local = incoming.local,
                             .flow_label = incoming.flow_label};
  if (sizeof header + incoming.octets.size() > into.size()) return 0;
  std::memcpy(into.data(), &header, sizeof header);
  std::memcpy(into.data() + sizeof header, incoming.octets.data(), incoming.octets.size());
  return sizeof header + incoming.octets.size();
}

/// The packet in a forwarded message, which stays where it is; nothing when there is none in it.
[[nodiscard]] inline std::optional<link::Incoming> unpack_forwarded(
    std::span<const std::byte> message) noexcept {
  if (message.size() <= sizeof(ForwardHeader)) return std::nullopt;
  ForwardHeader header;
  std::memcpy(&header, message.data(), sizeof header);
  link::Incoming incoming;
  incoming.source = header.source;
  incoming.destination = header.destination;
  incoming.source_port = header.source_port;
  incoming.traffic_class = header.traffic_class;
  incoming.hop_limit = header.hop_limit;
  incoming.local = header.local;
  incoming.flow_label = header.flow_label;
  incoming.octets = message.subspan(sizeof header);
  return incoming;
}

}  // namespace verbatim::device
