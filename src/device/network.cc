// SPDX-License-Identifier: Apache-2.0
#include "device/network.h"

#include "device/fabric_network.h"
#include "device/udp_network.h"

namespace verbatim::device {

std::unique_ptr<Network> Network::make(const PortInfo& port) {
  if (port.fabric) return std::make_unique<FabricNetwork>();
  return std::make_unique<UdpNetwork>();
}

}  // namespace verbatim::device
