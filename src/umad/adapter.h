// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/umad.h>

#include <optional>
#include <string>
#include <string_view>

#include "host/fabric_client.h"

namespace verbatim::umad {

/// The node of a fabric whose adapter this program uses: VERBATIM_FABRIC and VERBATIM_NODE name it.
/// Without the first there is no adapter.
struct Adapter {
  host::FabricPlace place;
  std::string node;
  host::NodeView view;

  /// Asks the fabric. Nothing, after a message to the user, when there is no such fabric or node.
  [[nodiscard]] static std::optional<Adapter> find();

  [[nodiscard]] bool is_called(const char* name) const noexcept;
  /// The highest number of a port.
  [[nodiscard]] int last_port() const noexcept;
  [[nodiscard]] const host::FabricPortState* port(int number) const noexcept;
  /// The port that a program gets which names none: the first active one, or else the first one
  /// that is connected, or else the first one. Negative: there is none.
  [[nodiscard]] int best_port() const noexcept;
};

/// An adapter and one of its ports, as programs name them: no name is any adapter, and port 0 any
/// port of an adapter that is no switch.
struct ChosenPort {
  Adapter adapter;
  int number = 0;
  /// kNoDevice: there is no such adapter. kInvalidArgument: it has no such port.
  [[nodiscard]] static Expected<ChosenPort> find(const char* name, int number);
};

/// Prints a sentence for the user, unless it was the last one printed.
void tell_user(std::string_view sentence) noexcept;

}  // namespace verbatim::umad
