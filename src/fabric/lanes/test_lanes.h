// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fabric/data/test_subnet.h"
#include "fabric/lanes/link_layer.h"

/// A subnet whose links have rates and lanes, and programs on it that send as fast as they can.
/// Nothing but tests includes this.
namespace verbatim::fabric::test {

inline constexpr LinkRate kTwoGigabits{.width = LinkWidth::k1x, .speed = LinkSpeed::kSdr};

/// All links have this rate.
inline Topology at_rate(Topology topology, LinkRate rate) {
  for (TopologyLink& link : topology.links) link.rate = rate;
  return topology;
}

class LanesSubnet : public TestSubnet {
 public:
  struct Weight {
    unsigned lane = 0;
    unsigned weight = 0;
  };
  struct Tables {
    std::vector<Weight> high{};
    std::vector<Weight> low{};
    std::uint8_t limit = 0;
  };

  using TestSubnet::TestSubnet;

  [[nodiscard]] DataPacket packet_of(std::string_view from, std::string_view to, unsigned level,
                                     std::uint16_t words = kWords) {
    DataPacket made = packet(from, to);
    made.level = wire::ServiceLevel{static_cast<std::uint8_t>(level)};
    made.words = words;
    return made;
  }
  void set_tables(PortEnd port, const Tables& tables) {
    set_table(port, 1, tables.low);
    set_table(port, 3, tables.high);
    change_port(port, [&](wire::PortInfo& info) { info.vl_high_limit = tables.limit; });
  }
  /// The lane of each service level, at a switch for all ports in.
  void set_lanes(PortEnd out, const std::array<std::uint8_t, 16>& lanes) {
    wire::Smp smp{.method = wire::MadMethod::kSet, .attribute = wire::SmpAttribute::kSlToVlTable};
    for (std::size_t at = 0; at < 8; ++at) {
      smp.data[at] = static_cast<std::byte>(lanes[2 * at] << 4 | lanes[2 * at + 1]);
    }
    const TopologyNode& node = fabric.topology().nodes[out.node];
    const unsigned ports = node.kind == NodeKind::kSwitch ? node.port_count : 0U;
    for (unsigned in = 0; in <= ports; ++in) {
      smp.attribute_modifier = in << 8 | out.port;
      ASSERT_TRUE(ask(smp, path_of(out.node)));
    }
  }
  /// Lane = service level, on the whole subnet.
  void use_all_lanes() {
    for (std::uint32_t node = 0; node < fabric.topology().nodes.size(); ++node) {
      for (unsigned port = 1; port <= fabric.topology().nodes[node].port_count; ++port) {
        set_lanes({.node = node, .port = static_cast<std::uint8_t>(port)},
                  {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7});
      }
    }
  }

  /// A program that always has packets waiting in its adapter.
  struct Stream {
    std::string from;
    std::string to;
    unsigned level = 0;
    std::uint16_t words = 1030;
    std::uint8_t rate = 0;
  };
  /// Runs streams for some time. Returns how many packets of each have arrived.
  std::vector<std::uint64_t> run(const std::vector<Stream>& streams, Duration time) {
    constexpr std::size_t kWaiting = 32;
    std::vector<std::uint64_t> arrived(streams.size());
    std::vector<std::size_t> outstanding(streams.size());
    std::map<std::uint32_t, std::size_t> stream_of;
    const Instant end = now + time;
    const auto drain = [&] {
      while (const auto outcome = fabric.poll_data()) {
        const auto found = stream_of.find(outcome->handle);
        if (found == stream_of.end()) continue;
        if (outcome->kind == DataOutcome::Kind::kArrived) {
          ++arrived[found->second];
        } else {
          --outstanding[found->second];
          stream_of.erase(found);
        }
      }
    };
    while (now < end) {
      for (std::size_t at = 0; at < streams.size(); ++at) {
        const Stream& stream = streams[at];
        while (outstanding[at] < kWaiting) {
          DataPacket sent = packet_of(stream.from, stream.to, stream.level, stream.words);
          sent.rate = stream.rate;
          stream_of[sent.handle] = at;
          ++outstanding[at];
          fabric.post_data(now, host(stream.from), sent);
          drain();
        }
      }
      const Instant next = fabric.next_due().value_or(end);
      now = std::min(std::max(now, next), end);
      fabric.advance(now);
      drain();
    }
    return arrived;
  }
  [[nodiscard]] LaneState lane(PortEnd port, unsigned number) const {
    return fabric.lane_state(port, wire::VirtualLane{static_cast<std::uint8_t>(number)});
  }
  /// Packets that have arrived, by handle, since this was asked last; the rest of them is done.
  std::vector<std::uint32_t> arrivals() {
    std::vector<std::uint32_t> handles;
    while (const auto outcome = fabric.poll_data()) {
      if (outcome->kind == DataOutcome::Kind::kArrived) handles.push_back(outcome->handle);
    }
    return handles;
  }
  [[nodiscard]] const Path& path_of(std::uint32_t node) const {
    return path(fabric.topology().nodes[node].description);
  }

 private:
  void set_table(PortEnd port, unsigned block, const std::vector<Weight>& weights) {
    const bool is_switch = fabric.topology().nodes[port.node].kind == NodeKind::kSwitch;
    wire::Smp smp{.method = wire::MadMethod::kSet,
                  .attribute = wire::SmpAttribute::kVlArbitrationTable,
                  .attribute_modifier = block << 16 | (is_switch ? port.port : 0U)};
    std::size_t at = 0;
    for (const Weight& each : weights) {
      smp.data[at++] = static_cast<std::byte>(each.lane);
      smp.data[at++] = static_cast<std::byte>(each.weight);
    }
    const auto answer = ask(smp, path_of(port.node));
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->status, wire::SmpStatus::kOk);
  }
};

}  // namespace verbatim::fabric::test
