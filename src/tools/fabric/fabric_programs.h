// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_names.h"
#include "host/fabric_server.h"

namespace verbatim::tools {

/// Takes the calls of programs from the connections to the fabric, and what the fabric has for
/// programs back to them. Owns none of the three. Thread: that of the fabric.
class FabricPrograms {
 public:
  FabricPrograms(fabric::Fabric& fabric, const fabric::NodeNames& names,
                 host::FabricServer& server) noexcept
      : fabric_(fabric), names_(names), server_(server) {}

  /// Any event but Commanded.
  void handle(Instant now, host::FabricEvent&& event);
  /// Passes on all that the fabric has for programs, and all changes of ports.
  void drain();

 private:
  using ClientNumber = host::FabricClientId;

  void handle(ClientNumber client, const host::FabricEvent::Attached& attached);
  void handle(Instant now, ClientNumber client, const host::FabricEvent::Called& called);
  void handle(Instant now, ClientNumber client, host::FabricEvent::Sent&& sent);
  void handle(Instant now, ClientNumber client, const host::FabricEvent::Left&);
  void handle(Instant now, const host::FabricEvent::SmChanged& changed);

  fabric::Fabric& fabric_;
  const fabric::NodeNames& names_;
  host::FabricServer& server_;
  std::unordered_map<ClientNumber, fabric::PortEnd> ports_;
};

/// What programs see of a node.
[[nodiscard]] host::FabricNodeState node_state(const fabric::Fabric& fabric, std::uint32_t node);

}  // namespace verbatim::tools
