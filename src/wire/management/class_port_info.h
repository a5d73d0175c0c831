// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/byte_order.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"

namespace verbatim::wire {

/// Where datagrams of a class are to be sent: requests to another port (redirection), or traps.
struct ClassRoute {
  Gid gid{};
  std::uint8_t traffic_class = 0;
  ServiceLevel level{};          // 4 bits
  std::uint32_t flow_label = 0;  // 20 bits
  Lid lid{};                     // 0: none
  PKey pkey{};
  std::uint8_t hop_limit = 0;  // of traps only
  QpNumber qpn{};
  QKey qkey{};
  friend bool operator==(const ClassRoute&, const ClassRoute&) noexcept = default;
};

/// What the agent of a management class can do (IBA Vol 1, 13.4.8.1). The attribute 0x0001 of each
/// class but those of subnet management.
///
///     0 base version | 1 class version | 2..3 capabilities
///     4..7 capabilities 2:27 response time:5
///     8..23 redirect GID | 24..27 traffic class:8 SL:4 flow label:20 | 28..29 LID | 30..31 P_Key
///     32 reserved | 33..35 queue pair | 36..39 Q_Key
///     40..55 trap GID | 56..59 traffic class:8 SL:4 flow label:20 | 60..61 LID | 62..63 P_Key
///     64 hop limit | 65..67 queue pair | 68..71 Q_Key
struct ClassPortInfo {
  static constexpr std::size_t kSize = 72;
  static constexpr std::uint16_t kAttribute = 0x0001;
  static constexpr std::uint32_t kCapabilities2Mask = 0x07ff'ffff;
  std::uint8_t base_version = 1;
  std::uint8_t class_version = 1;
  std::uint16_t capabilities = 0;  // bits 0 and 1: traps, notices; from 8 on of the class
  std::uint32_t capabilities_2 = 0;
  std::uint8_t response_time = 0;  // 4.096 us * 2^this
  ClassRoute redirect{};
  ClassRoute trap{};
  friend bool operator==(const ClassPortInfo&, const ClassPortInfo&) noexcept = default;

  /// Writes every octet, reserved ones as zero.
  void emit(std::span<std::byte, kSize> to) const noexcept {
    store_be<std::uint8_t, 0>(to, base_version);
    store_be<std::uint8_t, 1>(to, class_version);
    store_be<std::uint16_t, 2>(to, capabilities);
    store_be<std::uint32_t, 4>(
        to, ((capabilities_2 & kCapabilities2Mask) << 5) | (std::uint32_t{response_time} & 0x1fU));
    emit_route(to.subspan<8, 32>(), redirect);
    store_be<std::uint8_t, 32>(to, 0);
    emit_route(to.subspan<40, 32>(), trap);
  }
  static ClassPortInfo from(std::span<const std::byte, kSize> octets) noexcept {
    const auto word = load_be<std::uint32_t, 4>(octets);
    ClassPortInfo info{.base_version = load_be<std::uint8_t, 0>(octets),
                       .class_version = load_be<std::uint8_t, 1>(octets),
                       .capabilities = load_be<std::uint16_t, 2>(octets),
                       .capabilities_2 = word >> 5,
                       .response_time = static_cast<std::uint8_t>(word & 0x1f),
                       .redirect = route_from(octets.subspan<8, 32>()),
                       .trap = route_from(octets.subspan<40, 32>())};
    info.redirect.hop_limit = 0;  // reserved there
    return info;
  }

 private:
  static void emit_route(std::span<std::byte, 32> to, const ClassRoute& route) noexcept {
    std::memcpy(to.data(), route.gid.octets.data(), route.gid.octets.size());
    store_be<std::uint32_t, 16>(to, (std::uint32_t{route.traffic_class} << 24) |
                                        ((static_cast<std::uint32_t>(route.level) & 0x0fU) << 20) |
                                        (route.flow_label & 0x000f'ffffU));
    store_be<std::uint16_t, 20>(to, static_cast<std::uint16_t>(route.lid));
    store_be<std::uint16_t, 22>(to, static_cast<std::uint16_t>(route.pkey));
    store_be<std::uint32_t, 24>(to, (std::uint32_t{route.hop_limit} << 24) |
                                        (static_cast<std::uint32_t>(route.qpn) & kQpNumberMask));
    store_be<std::uint32_t, 28>(to, static_cast<std::uint32_t>(route.qkey));
  }
  static ClassRoute route_from(std::span<const std::byte, 32> octets) noexcept {
    const auto classes = load_be<std::uint32_t, 16>(octets);
    const auto pair = load_be<std::uint32_t, 24>(octets);
    ClassRoute route{.traffic_class = static_cast<std::uint8_t>(classes >> 24),
                     .level = ServiceLevel{static_cast<std::uint8_t>((classes >> 20) & 0x0f)},
                     .flow_label = classes & 0x000f'ffff,
                     .lid = Lid{load_be<std::uint16_t, 20>(octets)},
                     .pkey = PKey{load_be<std::uint16_t, 22>(octets)},
                     .hop_limit = static_cast<std::uint8_t>(pair >> 24),
                     .qpn = QpNumber{pair & kQpNumberMask},
                     .qkey = QKey{load_be<std::uint32_t, 28>(octets)}};
    std::memcpy(route.gid.octets.data(), octets.data(), route.gid.octets.size());
    return route;
  }
};

}  // namespace verbatim::wire
