// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "fabric/topology/topology.h"
#include "wire/headers/lrh.h"

namespace verbatim::fabric {

/// A virtual lane of one port: as an output, the queue of packets that leave through the port; as
/// an input, the receive buffer for the packets that come from its link (IBA Vol 1, 7.6).
struct LaneEnd {
  PortEnd port{};
  wire::VirtualLane lane{};
  friend bool operator==(const LaneEnd&, const LaneEnd&) noexcept = default;
};

/// How full a lane of a port is. Blocks are of 64 octets.
struct LaneState {
  std::uint32_t queued_packets = 0;   // as an output: that wait to leave through the port
  std::uint32_t queued_blocks = 0;    // theirs
  std::uint32_t credits = 0;          // as an output: blocks that the other end of the link takes
  std::uint32_t buffered_blocks = 0;  // as an input: of packets that have not left the node
  friend bool operator==(const LaneState&, const LaneState&) noexcept = default;
};

/// An output lane with packets that wait, and what they wait for. All of them together are the
/// graph of waiting lanes: `out` waits for room in the input lane `buffer`, and that gets room when
/// a packet in it leaves its node, so it waits for the lanes in whose `sources` it is.
struct LaneWait {
  LaneEnd out{};
  Instant since{};  // when its first packet became the first, so it has sent none since then
  std::uint32_t packets = 0;
  std::optional<LaneEnd> buffer{};  // for whose credits the first packet waits; else for its turn
  std::vector<LaneEnd> sources{};   // input lanes of the same node that hold the packets, each once
};

}  // namespace verbatim::fabric
