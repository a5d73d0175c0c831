// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_addresses.h"
#include "fabric/topology/node_names.h"
#include "tools/fabric/fabric_captures.h"
#include "tools/fabric/fabric_command.h"
#include "tools/fabric/fabric_faults.h"

namespace verbatim::tools {

struct CommandAnswer {
  bool is_done = true;
  bool quits = false;                             // the user wants the fabric to end
  std::optional<fabric::PortEnd> has_captured{};  // a capture of this port has begun
  bool waits = false;                             // the answer is complete when that has ended
  std::string text{};  // lines, each with its end; of a command that is not done, the reason
};

/// Executes what users say to a running fabric. Owns none of what it is made with. Thread: that
/// of the fabric.
class FabricInterpreter {
 public:
  FabricInterpreter(fabric::Fabric& fabric, const fabric::NodeNames& names,
                    const fabric::NodeAddresses& addresses, FabricCaptures& captures) noexcept
      : fabric_(fabric),
        names_(names),
        addresses_(addresses),
        captures_(captures),
        faults_(fabric, names) {}

  [[nodiscard]] CommandAnswer execute(Instant now, std::string_view line);

 private:
  [[nodiscard]] CommandAnswer execute(Instant now, const FabricCommand& command);
  [[nodiscard]] CommandAnswer set_cable(Instant now, const FabricCommand& command);
  [[nodiscard]] CommandAnswer set_power(Instant now, const FabricCommand& command);
  [[nodiscard]] CommandAnswer set_loss(const FabricCommand& command);
  [[nodiscard]] CommandAnswer set_faults(const FabricCommand& command);
  [[nodiscard]] CommandAnswer report_errors(Instant now, const FabricCommand& command);
  [[nodiscard]] CommandAnswer describe(Instant now, const FabricCommand& command);
  [[nodiscard]] CommandAnswer capture(Instant now, const FabricCommand& command);
  [[nodiscard]] CommandAnswer stop_capture(const FabricCommand& command);
  [[nodiscard]] CommandAnswer show(const FabricCommand& command);
  [[nodiscard]] CommandAnswer show_ports(const FabricCommand& command);
  [[nodiscard]] CommandAnswer show_route(const FabricCommand& command);
  /// A port of an adapter that has one, the first of one with several, or port 0 of a switch.
  [[nodiscard]] Expected<fabric::PortEnd> find_end(std::string_view name,
                                                   std::string& message) const;

  fabric::Fabric& fabric_;
  const fabric::NodeNames& names_;
  const fabric::NodeAddresses& addresses_;
  FabricCaptures& captures_;
  FabricFaults faults_;
};

}  // namespace verbatim::tools
