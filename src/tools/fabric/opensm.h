// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/expected.h"
#include "fabric/topology/node_names.h"
#include "host/fabric_place.h"
#include "tools/fabric/child_process.h"

namespace verbatim::tools {

struct OpensmOptions {
  bool is_wanted = false;
  std::string node;       // where it runs; empty: the first host
  std::string arguments;  // more of its command line, separated by blanks
};

/// An OpenSM that the process of a fabric has started on one of its nodes.
class Opensm {
 public:
  /// On failure `message` says why, and what to install.
  [[nodiscard]] Status start(const OpensmOptions& options, const fabric::Topology& topology,
                             const fabric::NodeNames& names, const host::FabricPlace& place,
                             std::string& message);

  [[nodiscard]] bool runs() const noexcept { return process_.runs(); }
  /// Whether it has ended since the last call.
  [[nodiscard]] bool has_just_ended() noexcept;
  void end() noexcept;   // politely
  void kill() noexcept;  // for certain
  [[nodiscard]] const std::string& node() const noexcept { return node_; }
  [[nodiscard]] const std::string& log() const noexcept { return log_; }
  /// How it has ended, and the last lines that it has written, for a message.
  [[nodiscard]] std::string explain_end() const;

 private:
  ChildProcess process_;
  std::string node_;
  std::string log_;     // written by itself, with a buffer
  std::string output_;  // what it prints
};

}  // namespace verbatim::tools
