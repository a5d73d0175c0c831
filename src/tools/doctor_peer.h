// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/port_info.h"
#include "tools/doctor.h"

/// Checks the path between two hosts that both run `verbatim doctor`: one serves, the other asks.
/// They exchange text over TCP and probes over UDP port 4791; the probes are real RoCEv2 packets.
namespace verbatim::tools {

struct PeerToAsk {
  std::string host;  // a name or an address
  std::uint16_t control_port = 0;
};
/// Checks the path in both directions.
void look_at_peer(const PeerToAsk& peer, const std::vector<device::PortInfo>& ports,
                  Findings& findings);

/// Answers the hosts that ask, one after the other, until a signal ends it. Returns the exit
/// status.
[[nodiscard]] int serve_peers(const std::vector<device::PortInfo>& ports,
                              std::uint16_t control_port);

}  // namespace verbatim::tools
