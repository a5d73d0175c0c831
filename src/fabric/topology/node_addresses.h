// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// The IPv4 addresses by which connections name the hosts of a fabric. A fabric has a network,
/// 127.64.0.0/16 to 127.127.0.0/16; its host n, counted from 1 in the order of the topology, has
/// the address n in it: host 1 of network 64 is 127.64.0.1. All of 127.0.0.0/8 is local on every
/// machine without configuration, so programs can also open sockets at these addresses.
///
/// Switches have none, nor hosts beyond the 65,535th.
class NodeAddresses {
 public:
  static constexpr unsigned kFirstNetwork = 64;
  static constexpr unsigned kLastNetwork = 127;

  explicit NodeAddresses(const Topology& topology);

  void set_network(unsigned network) noexcept { network_ = network; }
  [[nodiscard]] unsigned network() const noexcept { return network_; }

  /// In host byte order; 0: the node has none.
  [[nodiscard]] std::uint32_t address_of(std::uint32_t node) const noexcept;
  /// Nothing: no node has the address.
  [[nodiscard]] std::optional<std::uint32_t> node_at(std::uint32_t address) const noexcept;

 private:
  static constexpr std::uint32_t kHostsMax = 0xffff;

  std::vector<std::uint32_t> hosts_;    // nodes; host n is at n - 1
  std::vector<std::uint32_t> numbers_;  // by node; 0: none
  unsigned network_ = kFirstNetwork;
};

/// As 127.64.0.1; empty for 0.
[[nodiscard]] std::string address_text(std::uint32_t address);

}  // namespace verbatim::fabric
