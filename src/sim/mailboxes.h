// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "link/packet_burst.h"
#include "sim/network_frame.h"

namespace verbatim::sim {

/// How endpoints that share an address, as processes of one host do, forward packets to each other:
/// a mailbox for each address and slot. A packet for a slot without an endpoint is lost.
class Mailboxes {
 public:
  struct Owner {
    wire::Gid address{};
    std::uint32_t slot = 0;
  };

  void open(const Owner& owner) { (void)boxes_[key_of(owner)]; }
  void put(const Owner& owner, const link::Incoming& incoming) {
    const auto box = boxes_.find(key_of(owner));
    if (box == boxes_.end()) return;
    box->second.push_back({.source = incoming.source,
                           .destination = incoming.destination,
                           .source_port = incoming.source_port,
                           .hop_limit = incoming.hop_limit,
                           .traffic_class = incoming.traffic_class,
                           .octets = {incoming.octets.begin(), incoming.octets.end()}});
  }
  [[nodiscard]] std::optional<NetworkFrame> take(const Owner& owner) {
    std::deque<NetworkFrame>& box = boxes_[key_of(owner)];
    if (box.empty()) return std::nullopt;
    NetworkFrame frame = std::move(box.front());
    box.pop_front();
    return frame;
  }
  [[nodiscard]] bool has_any(const Owner& owner) const noexcept {
    const auto box = boxes_.find(key_of(owner));
    return box != boxes_.end() && !box->second.empty();
  }

 private:
  using Key = std::pair<decltype(wire::Gid::octets), std::uint32_t>;
  [[nodiscard]] static Key key_of(const Owner& owner) noexcept {
    return {owner.address.octets, owner.slot};
  }

  std::map<Key, std::deque<NetworkFrame>> boxes_;
};

}  // namespace verbatim::sim
