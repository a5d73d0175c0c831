// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "fabric/drop_reason.h"
#include "fabric/fabric.h"
#include "fabric/lanes/deadlock_finder.h"
#include "sim/fabric/latencies.h"
#include "sim/fabric/traffic_pattern.h"
#include "wire/headers/lrh.h"

namespace verbatim::sim {

/// Messages that the hosts of a fabric send to each other.
struct FabricLoad {
  TrafficPattern pattern{};
  std::uint32_t message_octets = 65'536;
  std::uint32_t load_percent = 100;  // of the rate of each sender's link, with headers
  Duration duration = std::chrono::milliseconds(1);
  wire::ServiceLevel level{};
  std::uint64_t seed = 1;
};

/// What one port of an adapter has sent and received: payload of packets that have arrived.
struct HostTraffic {
  fabric::PortEnd port{};
  bool sends = false;
  bool is_sent_to = false;             // so far
  std::uint64_t delivered_octets = 0;  // of what it has sent
  std::uint64_t received_octets = 0;
};

struct FoundDeadlock {
  fabric::Deadlock deadlock{};
  Instant found{};
  bool lasts = false;  // the same cycle was there at the end
};

/// What became of a load, from its first instant to its last. Packets are counted once each:
/// posted = delivered + dropped + under way.
struct LoadResult {
  std::uint64_t posted_packets = 0;
  std::uint64_t delivered_packets = 0;
  std::uint64_t dropped_packets = 0;
  std::array<std::uint64_t, fabric::kDropReasonCount> drops{};  // by reason
  std::uint64_t delivered_messages = 0;
  Latencies latencies{};  // of these: from the post of the first packet to the last arrival
  std::vector<HostTraffic> hosts{};
  std::optional<FoundDeadlock> deadlock{};
  std::uint64_t trace = 0;  // equal for equal histories

  [[nodiscard]] std::uint64_t under_way() const noexcept {
    return posted_packets - delivered_packets - dropped_packets;
  }
};

/// Runs a load on a fabric whose ports are Active, in virtual time from Instant{} on. Equal fabrics
/// and loads give equal results. On failure `message` says what of the load does not fit.
///
/// Each sender has a message ready at equal intervals, which follow from the load and begin at an
/// instant that the seed chooses. It gives the packets of a message to its adapter as the adapter
/// has room for them, so messages that are ready wait in front of a link that is slower than they
/// come; that wait is not part of their latency.
[[nodiscard]] Expected<LoadResult> run_load(fabric::Fabric& fabric, const FabricLoad& load,
                                            std::string& message);

}  // namespace verbatim::sim
