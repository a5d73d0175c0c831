// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/opcode.h"

namespace verbatim::transport {

/// Service types; the values are those of the verbs.
enum class QpType : std::uint8_t {
  kSmi = 0,  // not offered by the verbs, but the state table has rows for it
  kGsi = 1,
  kRc = 2,
  kUc = 3,
  kUd = 4,
  kRawPacket = 8,
  kXrcInitiator = 9,
  kXrcTarget = 10,
};

/// Whether the service repeats what was lost: RC and XRC.
[[nodiscard]] constexpr bool is_reliable(QpType type) noexcept {
  return type == QpType::kRc || type == QpType::kXrcInitiator || type == QpType::kXrcTarget;
}

/// Whether each request names its own destination: UD and the management queue pairs.
[[nodiscard]] constexpr bool is_datagram(QpType type) noexcept {
  return type == QpType::kUd || type == QpType::kGsi || type == QpType::kSmi;
}

/// The transport that the opcodes of the service name. Raw packets have none; the value for them
/// means nothing.
[[nodiscard]] constexpr wire::Transport transport_of(QpType type) noexcept {
  switch (type) {
    case QpType::kRc:
      return wire::Transport::kRc;
    case QpType::kUc:
      return wire::Transport::kUc;
    case QpType::kXrcInitiator:
    case QpType::kXrcTarget:
      return wire::Transport::kXrc;
    case QpType::kUd:
    case QpType::kGsi:
    case QpType::kSmi:
    case QpType::kRawPacket:
      return wire::Transport::kUd;
  }
  return wire::Transport::kUd;
}

}  // namespace verbatim::transport
