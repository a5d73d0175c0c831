// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/expected.h"
#include "fabric/topology/topology.h"

namespace verbatim::fabric {

/// How users name the nodes and ports of a topology, and how messages do. Belongs to one topology,
/// which it borrows.
///
/// A node has several names: its id in the file, its GUID (0x...), its description, and the first
/// word of the description where no other node has the same. A port is `leaf0[3]`; for a node with
/// one port the name of the node is enough.
class NodeNames {
 public:
  explicit NodeNames(const Topology& topology);

  /// The short name: the first word of the description where that names this node alone, else the
  /// whole description, else the id.
  [[nodiscard]] const std::string& name_of(std::uint32_t node) const noexcept {
    return shown_[node];
  }
  [[nodiscard]] std::string name_of(PortEnd end) const;

  /// On failure `message` says so, with similar names.
  [[nodiscard]] Expected<std::uint32_t> find(std::string_view name, std::string& message) const;
  [[nodiscard]] Expected<PortEnd> find_port(std::string_view name, std::string& message) const;

 private:
  struct Name {
    std::string_view text;
    std::uint32_t node = 0;
  };
  [[nodiscard]] std::string similar_to(std::string_view name) const;

  const Topology& topology_;
  std::vector<Name> names_;         // sorted; one name may be that of several nodes
  std::vector<std::string> shown_;  // by node
};

}  // namespace verbatim::fabric
