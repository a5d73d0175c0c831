// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_names.h"
#include "tools/json.h"

namespace verbatim::tools {

/// The rules of faults that the links of a fabric have (docs/FAULTS.md), as the user has written
/// them. Borrows what it is made with. Thread: that of the fabric.
class FabricFaults {
 public:
  FabricFaults(fabric::Fabric& fabric, const fabric::NodeNames& names) noexcept
      : fabric_(fabric), names_(names) {}

  /// The word that takes the rules of a link away.
  static constexpr std::string_view kNone = "none";

  /// Gives the link of a port these rules instead of its present ones. On failure `message` says
  /// why.
  [[nodiscard]] Status set(fabric::PortEnd port, const std::string& rules, std::string& message);

  [[nodiscard]] std::string text() const;
  [[nodiscard]] Json json() const;

 private:
  struct Link {
    fabric::PortEnd port{};  // for which the rules say out and in
    std::string rules;
  };
  fabric::Fabric& fabric_;
  const fabric::NodeNames& names_;
  std::vector<Link> links_;
};

/// The commands in a file of faults: one for each line `link PORT RULES`; lines that are empty or
/// begin with # say nothing.
struct FaultLine {
  std::size_t number = 0;  // of the line, from one
  std::string command;
};
/// On failure `message` names the file and the line.
[[nodiscard]] Expected<std::vector<FaultLine>> read_fault_file(const std::string& path,
                                                               std::string& message);

}  // namespace verbatim::tools
