// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/expected.h"
#include "fabric/topology/topology.h"

namespace verbatim::tools {

/// Where a topology comes from: exactly one of the first five is not empty.
struct TopologyChoice {
  std::string file{};
  std::string tree{};  // the shapes as fabric/topology/generate.h reads them
  std::string ring{};
  std::string fat_tree{};
  std::string torus{};
  std::string rate{};  // of all links of the last four; empty: 4xEDR
};

/// On failure `message` says what is wrong, for a file with its name and the line.
[[nodiscard]] Expected<fabric::Topology> choose_topology(const TopologyChoice& choice,
                                                         std::string& message);

}  // namespace verbatim::tools
