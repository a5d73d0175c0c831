// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_names.h"
#include "host/fabric_server.h"
#include "tools/fabric/fabric_data_ports.h"

namespace verbatim::tools {

/// Takes the calls of programs from the connections to the fabric, and what the fabric has for
/// programs back to them. Owns none of the four. Thread: that of the fabric.
class FabricPrograms {
 public:
  FabricPrograms(fabric::Fabric& fabric, const fabric::NodeNames& names, host::FabricServer& server,
                 FabricDataPorts& data) noexcept
      : fabric_(fabric), names_(names), server_(server), data_(data) {}

  /// Any event but Commanded.
  void handle(Instant now, host::FabricEvent&& event);
  /// Passes on all that the fabric has for programs, and all changes of ports.
  void drain();

 private:
  using ClientNumber = host::FabricClientId;

  void handle(ClientNumber client, const host::FabricEvent::Attached& attached);
  /// Why the program cannot have the port of the node that it has named; empty: it can.
  [[nodiscard]] std::string objection_to(std::uint32_t node,
                                         const host::FabricEvent::Attached& attached) const;
  void handle(Instant now, ClientNumber client, const host::FabricEvent::Called& called);
  void handle(Instant now, ClientNumber client, host::FabricEvent::Sent&& sent);
  void handle(Instant now, ClientNumber client, const host::FabricEvent::Left&);
  void handle(Instant now, const host::FabricEvent::SmChanged& changed);

  fabric::Fabric& fabric_;
  const fabric::NodeNames& names_;
  host::FabricServer& server_;
  FabricDataPorts& data_;
  std::unordered_map<ClientNumber, fabric::PortEnd> ports_;
};

/// What programs see of a node.
[[nodiscard]] host::FabricNodeState node_state(const fabric::Fabric& fabric, std::uint32_t node);

}  // namespace verbatim::tools
