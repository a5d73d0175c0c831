// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_addresses.h"
#include "fabric/topology/node_names.h"
#include "host/fabric_server.h"
#include "tools/fabric/fabric_data_ports.h"
#include "tools/fabric/group_keeper.h"

namespace verbatim::tools {

/// Takes the calls of programs from the connections to the fabric, and what the fabric has for
/// programs back to them. Thread: that of the fabric.
class FabricPrograms {
 public:
  /// The parts outlive this object.
  struct Parts {
    fabric::Fabric& fabric;
    const fabric::NodeNames& names;
    const fabric::NodeAddresses& addresses;
    host::FabricServer& server;
    FabricDataPorts& data;
  };
  explicit FabricPrograms(const Parts& parts) noexcept
      : fabric_(parts.fabric),
        names_(parts.names),
        addresses_(parts.addresses),
        server_(parts.server),
        data_(parts.data) {}

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
  [[nodiscard]] host::FabricReply register_agent(fabric::PortEnd port, ClientNumber client,
                                                 const host::FabricCall& request);
  [[nodiscard]] host::FabricReply find(const host::FabricCall& request) const;
  [[nodiscard]] host::FabricNodeState state_of(std::uint32_t node) const;
  /// Tells all programs that use connections that the process has ended.
  void tell_departure(const FabricDataPorts::Arrival& seat);

  fabric::Fabric& fabric_;
  const fabric::NodeNames& names_;
  const fabric::NodeAddresses& addresses_;
  host::FabricServer& server_;
  FabricDataPorts& data_;
  std::unordered_map<ClientNumber, fabric::PortEnd> ports_;
  GroupKeeper groups_{fabric_};
  std::vector<ClientNumber> connected_;  // that use rdma_cm
};

/// What programs see of a node.
[[nodiscard]] host::FabricNodeState node_state(const fabric::Fabric& fabric, std::uint32_t node);

}  // namespace verbatim::tools
