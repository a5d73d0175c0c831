// SPDX-License-Identifier: Apache-2.0
#include "fabric/topology/node_addresses.h"

namespace verbatim::fabric {

NodeAddresses::NodeAddresses(const Topology& topology) : numbers_(topology.nodes.size(), 0) {
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind != NodeKind::kHost || hosts_.size() == kHostsMax) continue;
    hosts_.push_back(node);
    numbers_[node] = static_cast<std::uint32_t>(hosts_.size());
  }
}

std::uint32_t NodeAddresses::address_of(std::uint32_t node) const noexcept {
  const std::uint32_t number = numbers_[node];
  return number == 0 ? 0 : 127U << 24 | network_ << 16 | number;
}

std::optional<std::uint32_t> NodeAddresses::node_at(std::uint32_t address) const noexcept {
  const std::uint32_t number = address & kHostsMax;
  const bool is_here = address >> 16 == (127U << 8 | network_);
  if (!is_here || number == 0 || number > hosts_.size()) return std::nullopt;
  return hosts_[number - 1];
}

std::string address_text(std::uint32_t address) {
  if (address == 0) return {};
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += std::to_string(address >> shift & 0xff) + (shift == 0 ? "" : ".");
  }
  return text;
}

}  // namespace verbatim::fabric
