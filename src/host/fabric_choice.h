// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/expected.h"
#include "host/fabric_place.h"

namespace verbatim::host {

/// The node on which this program runs: VERBATIM_FABRIC and VERBATIM_NODE, which
/// `verbatim run --fabric` sets.
struct FabricChoice {
  FabricPlace place;
  std::string node;  // as the user has named it

  /// Whether the program runs on a node of a fabric.
  [[nodiscard]] static bool exists() noexcept;
  /// To be called if it exists(). On failure `message` says what is wrong with the variables.
  [[nodiscard]] static Expected<FabricChoice> read(std::string& message);
};

}  // namespace verbatim::host
