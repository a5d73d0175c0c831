// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "fabric/fabric.h"
#include "fabric/topology/node_addresses.h"
#include "fabric/topology/node_names.h"
#include "host/descriptor.h"
#include "host/fabric_network_number.h"
#include "host/fabric_place.h"
#include "host/fabric_server.h"
#include "tools/fabric/fabric_captures.h"
#include "tools/fabric/fabric_data_ports.h"
#include "tools/fabric/fabric_interpreter.h"
#include "tools/fabric/fabric_programs.h"

namespace verbatim::tools {

/// The process of a fabric: it drives the fabric by the clock, and connects it with the programs
/// and commands of the user. It sleeps while nothing is due. For a short time after packets of
/// programs have passed it stays awake and looks for more.
///
/// The owner calls turn() until stops() is true. Thread: one.
class FabricLoop {
 public:
  FabricLoop(fabric::Topology topology, const fabric::FabricOptions& options);
  FabricLoop(const FabricLoop&) = delete;
  FabricLoop& operator=(const FabricLoop&) = delete;

  [[nodiscard]] Status open(const host::FabricPlace& place, std::string& message);
  /// Ends all captures, and the connections of all programs.
  void close() noexcept;

  /// Calls `handle` in a turn in which the descriptor is readable, until unwatch(). False: the
  /// system cannot watch such a descriptor.
  [[nodiscard]] bool watch(int descriptor, std::function<void()> handle);
  void unwatch(int descriptor);

  /// Waits until something is due, but not longer than this, and does it.
  void turn(Duration at_most);

  [[nodiscard]] CommandAnswer execute(std::string_view line);
  /// Called with a sentence for the user about what has happened by itself.
  void set_on_news(std::function<void(const std::string&)> tell) { tell_ = std::move(tell); }
  void stop() noexcept { stops_ = true; }
  [[nodiscard]] bool stops() const noexcept { return stops_; }

  [[nodiscard]] const fabric::Fabric& fabric() const noexcept { return fabric_; }
  [[nodiscard]] const fabric::NodeNames& names() const noexcept { return names_; }
  [[nodiscard]] const fabric::NodeAddresses& addresses() const noexcept { return addresses_; }
  /// All ports with a cable, whose other end has power, are Active.
  [[nodiscard]] bool is_active() const noexcept;

 private:
  [[nodiscard]] Instant now() const noexcept;
  [[nodiscard]] bool is_due(Instant now) const noexcept;
  [[nodiscard]] Instant next_due() const noexcept;
  /// Gives way to other threads, and looks at the descriptors now and then.
  void look_around();
  void wait(Duration at_most);
  void arm(Instant now);
  void handle_server();
  void handle_command(host::FabricClientId client, std::string_view line);
  void handle_captures();
  void handle_end_of(host::FabricClientId client);

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  fabric::Fabric fabric_;
  fabric::NodeNames names_;
  fabric::NodeAddresses addresses_;
  host::FabricNetworkNumber network_;
  host::FabricServer server_;
  FabricDataPorts data_;
  FabricPrograms programs_;
  FabricCaptures captures_;
  FabricInterpreter interpreter_;
  host::Descriptor epoll_;
  host::Descriptor timer_;
  Instant armed_ = Instant::never();  // when the timer goes off
  Instant waited_{};                  // when the descriptors were looked at last
  std::unordered_map<int, std::function<void()>> handlers_;
  /// Who waits for the end of a capture, and ends it by leaving.
  struct Waiting {
    host::FabricClientId client = 0;
    fabric::PortEnd port{};
  };
  std::vector<Waiting> waiting_;
  std::function<void(const std::string&)> tell_;
  bool has_moved_ = false;  // a packet of a program, in the last turn
  bool stops_ = false;
};

/// An answer as it goes to the program that asked: a mark whether the command is done, + or -, and
/// the text.
[[nodiscard]] std::string answer_text(const CommandAnswer& answer);

}  // namespace verbatim::tools
