// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/expected.h"
#include "fabric/packet_header.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/mad.h"
#include "wire/headers/wire_error.h"

namespace verbatim::fabric {

/// The part of a global route header that its sender chooses (IBA Vol 1, 8.3).
struct GlobalRoute {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  friend bool operator==(const GlobalRoute&, const GlobalRoute&) noexcept = default;
};

/// One management datagram on its way between two ports: the fields of its headers that a port or a
/// switch reads, and its 256 octets. It holds no pointers.
struct ManagementPacket {
  wire::Lid source{};
  wire::Lid destination{};
  wire::ServiceLevel level{};
  wire::QpNumber source_qp{};  // 0: subnet management, on lane 15; 1: general services
  wire::QpNumber dest_qp{};
  wire::PKey pkey = wire::PKey::kDefault;  // 0xffff for subnet management, which checks none
  wire::QKey qkey{};                       // 0 for subnet management
  std::optional<GlobalRoute> global_route{};
  std::array<std::byte, wire::Mad::kSize> mad{};
  friend bool operator==(const ManagementPacket&, const ManagementPacket&) noexcept = default;

  /// Subnet management packets travel on lane 15 and pass ports that are not Active.
  [[nodiscard]] bool is_subnet_management() const noexcept {
    return dest_qp == wire::QpNumber::kSmi;
  }
  [[nodiscard]] Expected<wire::MadView, wire::WireError> view() const noexcept {
    return wire::MadView::parse(mad);
  }
  [[nodiscard]] PacketHeader header() const noexcept {
    return {.kind = is_subnet_management() ? PacketKind::kSubnetManagement
                                           : PacketKind::kGeneralServices,
            .level = level,
            .source = source,
            .destination = destination,
            .pkey = pkey,
            .words = global_route ? kGlobalWords : kLocalWords,
            .source_qp = source_qp,
            .dest_qp = dest_qp,
            .opcode = wire::opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly),
            .datagram = this};
  }

 private:
  /// LRH 8, BTH 12, DETH 8, the datagram 256, ICRC 4 octets; a GRH has 40 more.
  static constexpr std::uint16_t kLocalWords = 72;
  static constexpr std::uint16_t kGlobalWords = kLocalWords + 10;
};

}  // namespace verbatim::fabric
