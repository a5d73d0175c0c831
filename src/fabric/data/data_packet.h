// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/packet_header.h"
#include "fabric/topology/topology.h"
#include "wire/headers/ids.h"
#include "wire/headers/lrh.h"
#include "wire/headers/opcode.h"

namespace verbatim::fabric {

/// A packet that a program sends: what ports and switches read of its headers. The octets stay with
/// the owner of the fabric, who knows them by `handle`.
struct DataPacket {
  std::uint32_t handle = 0;  // any number
  wire::Lid source{};
  wire::Lid destination{};
  wire::ServiceLevel level{};
  wire::PKey pkey = wire::PKey::kDefault;
  wire::QpNumber dest_qp{};
  wire::Opcode opcode{};
  std::uint16_t words = 0;                    // of four octets, LRH to ICRC: LRH.PktLen
  bool is_global = false;                     // it has a GRH
  std::uint8_t rate = 0;                      // of its path, as verbs count them; 0: the link's
  std::optional<wire::QpNumber> source_qp{};  // if it has a DETH

  [[nodiscard]] PacketHeader header() const noexcept {
    return {.kind = PacketKind::kData,
            .level = level,
            .source = source,
            .destination = destination,
            .pkey = pkey,
            .words = words,
            .source_qp = source_qp.value_or(wire::QpNumber{}),
            .dest_qp = dest_qp,
            .opcode = opcode,
            .handle = handle};
  }
};

/// What became of a packet: it has reached a port, and of several ones each has an outcome; and
/// then, once for each packet, the fabric has done with it: it has arrived wherever it arrives, or
/// was discarded.
struct DataOutcome {
  enum class Kind : std::uint8_t { kArrived, kDone };
  std::uint32_t handle = 0;
  Kind kind{};
  wire::VirtualLane lane{};  // on which it has arrived
  std::uint16_t blocks = 0;  // that it occupies in the receive buffer; 0: it has passed no link
  PortEnd port{};            // of an adapter, at which it has arrived
  friend bool operator==(const DataOutcome&, const DataOutcome&) noexcept = default;
};

}  // namespace verbatim::fabric
