// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/opcode.h"

namespace verbatim::fabric {

enum class PacketKind : std::uint8_t {
  kSubnetManagement,  // a datagram on lane 15: it passes ports that are not Active, and partitions
  kGeneralServices,   // a datagram of another management class
  kData,              // a packet of a program
};

struct ManagementPacket;

/// The fields of a packet's LRH and BTH that ports and switches read (IBA Vol 1, 7.7 and 9.2). The
/// rules of ports and of forwarding look at nothing else, so they are the same for packets of all
/// kinds.
struct PacketHeader {
  PacketKind kind{};
  wire::ServiceLevel level{};
  wire::Lid source{};
  wire::Lid destination{};
  wire::PKey pkey{};
  std::uint16_t words = 0;     // of four octets, from the LRH to the ICRC
  wire::QpNumber source_qp{};  // 0 where no header says it
  wire::QpNumber dest_qp{};
  wire::Opcode opcode{};
  // For those who look at the link: the packet itself, while the header is in use.
  const ManagementPacket* datagram = nullptr;  // null: a packet of a program
  std::uint32_t handle = 0;                    // of a packet of a program

  [[nodiscard]] bool is_subnet_management() const noexcept {
    return kind == PacketKind::kSubnetManagement;
  }
  [[nodiscard]] bool is_multicast() const noexcept {
    return destination >= wire::Lid::kFirstMulticast && destination != wire::Lid::kPermissive;
  }
};

}  // namespace verbatim::fabric
