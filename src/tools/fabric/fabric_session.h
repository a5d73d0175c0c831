// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/expected.h"
#include "base/time.h"
#include "tools/fabric/fabric_loop.h"
#include "tools/fabric/fabric_options.h"
#include "tools/fabric/opensm.h"

namespace verbatim::tools {

/// The process of a fabric with its signals and with the OpenSM that it has started: what `fabric
/// up` and `fabric run` have in common. The signals of a process are handled here, so there is one
/// session at a time. Thread: one.
class FabricSession {
 public:
  FabricSession() = default;
  FabricSession(const FabricSession&) = delete;
  FabricSession& operator=(const FabricSession&) = delete;
  ~FabricSession() { end(); }

  /// Makes the fabric and takes its place. On failure `message` says why.
  [[nodiscard]] Status open(const FabricSettings& settings, const host::FabricPlace& place,
                            std::string& message);
  [[nodiscard]] Status start_opensm(const OpensmOptions& options, std::string& message);

  [[nodiscard]] FabricLoop& loop() noexcept { return *loop_; }
  [[nodiscard]] Opensm& opensm() noexcept { return opensm_; }
  [[nodiscard]] const host::FabricPlace& place() const noexcept { return *place_; }

  /// Runs until all ports are Active. On failure `message` says which are not, and why.
  [[nodiscard]] Status await_active(Duration limit, std::string& message);
  /// Runs until the condition holds, or the loop stops. Looks at the condition now and then, and
  /// when a child has ended.
  void run_until(const std::function<bool()>& condition, Duration look_every);

  /// The signal that has asked the process to end; 0: none has.
  [[nodiscard]] int ending_signal() const noexcept { return ending_signal_; }
  /// Called after a child has ended, or the process was continued after a stop.
  void set_on_child(std::function<void()> handle) { on_child_ = std::move(handle); }
  void set_on_continue(std::function<void()> handle) { on_continue_ = std::move(handle); }

  /// Ends OpenSM and then the fabric.
  void end();

  /// One line about what there is.
  [[nodiscard]] std::string headline() const;

 private:
  [[nodiscard]] bool watch_signals();
  void handle_signals();
  [[nodiscard]] std::string inactive_ports() const;

  std::optional<host::FabricPlace> place_;
  std::unique_ptr<FabricLoop> loop_;
  Opensm opensm_;
  host::Descriptor signals_;
  int ending_signal_ = 0;
  bool has_child_ended_ = false;
  std::function<void()> on_child_;
  std::function<void()> on_continue_;
};

}  // namespace verbatim::tools
