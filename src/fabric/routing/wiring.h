// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// The ports of a topology under dense numbers, and what each is connected with: what algorithms
/// over a whole fabric look up most. A copy; it does not follow the topology.
class Wiring {
 public:
  explicit Wiring(const Topology& topology);

  [[nodiscard]] std::size_t node_count() const noexcept { return first_.size() - 1; }
  /// Of all nodes together. Each node has a port 0, whatever it is.
  [[nodiscard]] std::size_t port_count() const noexcept { return ends_.size(); }
  [[nodiscard]] std::uint32_t index_of(PortEnd end) const noexcept {
    return first_[end.node] + end.port;
  }
  [[nodiscard]] PortEnd end_of(std::uint32_t index) const noexcept { return ends_[index]; }
  [[nodiscard]] bool is_switch(std::uint32_t node) const noexcept { return is_switch_[node]; }
  [[nodiscard]] std::uint8_t last_port(std::uint32_t node) const noexcept {
    return static_cast<std::uint8_t>(first_[node + 1] - first_[node] - 1);
  }
  /// Empty: the port has no cable.
  [[nodiscard]] const std::optional<PortEnd>& peer_of(PortEnd end) const noexcept {
    return peers_[index_of(end)];
  }

 private:
  std::vector<std::uint32_t> first_;  // by node: the number of its port 0; one more at the end
  std::vector<bool> is_switch_;       // by node
  std::vector<PortEnd> ends_;         // by number
  std::vector<std::optional<PortEnd>> peers_;
};

}  // namespace verbatim::fabric
