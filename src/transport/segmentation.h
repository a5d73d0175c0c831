// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/queues/work.h"
#include "wire/headers/opcode.h"

namespace verbatim::transport {

/// Packets of a message of `octets`: an empty message is one empty packet (IBA Vol 1, 9.4.1).
[[nodiscard]] constexpr std::uint32_t packet_count(std::uint64_t octets,
                                                   std::uint32_t mtu) noexcept {
  return octets == 0 ? 1U : static_cast<std::uint32_t>((octets + mtu - 1) / mtu);
}

/// Whether an operation is answered by data or a value, not only by an acknowledgement.
[[nodiscard]] constexpr bool is_answered(SendOpcode opcode) noexcept {
  switch (opcode) {
    case SendOpcode::kRead:
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
    case SendOpcode::kFlush:
    case SendOpcode::kAtomicWrite:
      return true;
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
    case SendOpcode::kSendInvalidate:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      return false;
  }
  return false;
}

/// Whether the operation is executed in the adapter, without a packet.
[[nodiscard]] constexpr bool is_local(SendOpcode opcode) noexcept {
  return opcode == SendOpcode::kLocalInvalidate || opcode == SendOpcode::kBindWindow;
}

/// One packet of a SEND or WRITE message.
struct MessagePacket {
  wire::Operation operation{};
  std::uint32_t offset = 0;  // of its payload in the message
  std::uint32_t octets = 0;  // of payload
  bool is_first = false;
  bool is_last = false;
};

/// Packet `index` of a message of `message_octets` that is divided into packets of the MTU.
[[nodiscard]] MessagePacket message_packet(SendOpcode opcode, std::uint32_t message_octets,
                                           std::uint32_t mtu, std::uint32_t index) noexcept;

}  // namespace verbatim::transport
