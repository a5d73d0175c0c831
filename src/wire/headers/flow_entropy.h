// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/ids.h"

/// The UDP source port of RoCEv2 distinguishes flows, so that routers spread them over equal paths
/// while each stays in order (IBA Vol 1, annex A17.9.2). A queue pair keeps one port; receivers
/// must accept any. The rules are those of Linux, so that captures look alike.
namespace verbatim::wire {

/// The lowest port that these rules give: the dynamic range of IANA.
inline constexpr std::uint16_t kFirstEntropyPort = 0xc000;

/// Folds a 20-bit flow label into the 14 bits that a port in the dynamic range leaves.
[[nodiscard]] constexpr std::uint16_t source_port_of_label(std::uint32_t flow_label) noexcept {
  const std::uint32_t label = flow_label & 0x000f'ffffU;
  return static_cast<std::uint16_t>(kFirstEntropyPort | ((label & 0x3fffU) ^ (label >> 14)));
}

/// The label of a connection that has none. The order of the two numbers does not matter, so both
/// directions choose the same port.
[[nodiscard]] constexpr std::uint32_t flow_label_of(QpNumber local, QpNumber remote) noexcept {
  std::uint64_t mixed =
      std::uint64_t{static_cast<std::uint32_t>(local)} * static_cast<std::uint32_t>(remote);
  mixed ^= mixed >> 20;
  mixed ^= mixed >> 40;
  return static_cast<std::uint32_t>(mixed & 0x000f'ffffU);
}

/// RC, UC and XRC: from the flow label of the address handle; 0 there means "from the QP numbers".
[[nodiscard]] constexpr std::uint16_t source_port_of_connection(std::uint32_t flow_label,
                                                                QpNumber local,
                                                                QpNumber remote) noexcept {
  return source_port_of_label(flow_label != 0 ? flow_label : flow_label_of(local, remote));
}

/// UD and QP1 have no single remote number, so this is a multiplicative hash of the own number.
[[nodiscard]] constexpr std::uint16_t source_port_of_datagrams(QpNumber local) noexcept {
  constexpr std::uint32_t kGoldenRatio = 0x61c8'8647;  // 2^32 * (1 - 1/phi), as Linux' hash_32()
  const std::uint32_t hash = static_cast<std::uint32_t>(local) * kGoldenRatio;
  return static_cast<std::uint16_t>(kFirstEntropyPort + (hash >> 18));
}

}  // namespace verbatim::wire
