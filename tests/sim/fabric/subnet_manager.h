// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "fabric/fabric.h"
#include "wire/headers/smp.h"
#include "wire/management/node_info.h"
#include "wire/management/port_info.h"
#include "wire/management/switch_info.h"

namespace verbatim::fabric::test {

/// A small subnet manager: it discovers the nodes by directed routes, assigns LIDs, writes the
/// linear tables of the shortest paths and the multicast tables of one group of all adapter ports,
/// brings the ports to Active, and begins again after a trap,
/// after a request without an answer, and when a switch says that a port has changed. It uses one
/// port of the fabric as a program does.
class SubnetManager {
 public:
  struct Options {
    std::chrono::milliseconds timeout{20};
    std::uint32_t retries = 12;
    Duration look_interval = std::chrono::milliseconds(200);
    bool looks_at_switches = true;                   // at each look; without, only at its own port
    Duration pause = std::chrono::milliseconds(20);  // before it begins again after a failure
    std::size_t outstanding_max = 32;
  };
  static constexpr ClientId kClient{1};
  static constexpr wire::Lid kGroup{0xc000};

  SubnetManager(Fabric& fabric, PortEnd port, const Options& options);

  void start(Instant now);
  void handle(Instant now, const UserMad& mad);
  void handle_time(Instant now);
  [[nodiscard]] Instant next_due() const noexcept;

  /// The last sweep was without failures, and nothing has asked for another one since.
  [[nodiscard]] bool is_settled() const noexcept;
  [[nodiscard]] std::size_t sweep_count() const noexcept { return sweeps_; }
  /// Ends of the subnet, each with one LID: ports of adapters, and switches.
  [[nodiscard]] std::size_t end_count() const noexcept { return ends_.size(); }

 private:
  using Path = std::vector<std::uint8_t>;  // the ports to leave through, from the own adapter on
  using Distances = std::vector<std::size_t>;  // to one end, by end: how many links are between
  struct Neighbor {
    std::size_t end = 0;
    std::uint8_t port = 0;
  };
  struct EndPort {
    std::optional<wire::PortInfo> info{};
    std::optional<Neighbor> neighbor{};
  };
  /// A switch, or one port of an adapter.
  struct End {
    wire::NodeInfo info{};
    Path path{};
    wire::SwitchInfo switch_info{};
    std::uint8_t base_port = 0;  // that has the LID
    wire::Lid lid{};
    std::map<std::uint8_t, EndPort> ports{};
    [[nodiscard]] bool is_switch() const noexcept { return info.type == wire::NodeType::kSwitch; }
  };
  enum class Phase : std::uint8_t { kIdle, kLook, kDiscover, kConfigure, kArm, kActivate };
  struct Request {
    Path path{};
    wire::MadMethod method = wire::MadMethod::kGet;
    wire::SmpAttribute attribute{};
    std::uint32_t modifier = 0;
    std::array<std::byte, wire::Smp::kDataSize> data{};
    std::optional<Neighbor> origin{};  // of a NodeInfo: from where this path leads there
    std::size_t end = 0;               // of all others: whom it is about
  };

  // subnet_manager.cc: phases and requests
  void sweep(Instant now);
  void look(bool at_switches);
  void ask(Request request) { waiting_.push_back(std::move(request)); }
  void pump(Instant now);
  void post(Instant now, const Request& request);
  void handle_trap(Instant now, const UserMad& mad);
  void handle_answer(Instant now, const Request& request, const UserMad& mad);
  void fail(Instant now);
  void next_phase(Instant now);

  // subnet_discovery.cc: what is there
  void explore(const Path& path, std::optional<Neighbor> origin);
  void handle_node_info(const Request& request, const wire::NodeInfo& info);
  void handle_switch_info(const Request& request, const wire::SwitchInfo& info);
  void handle_port_info(const Request& request, const wire::PortInfo& info);
  void ask_port_info(std::size_t end, std::uint8_t port);

  // subnet_configuration.cc: what it shall be
  void configure();
  void write_tables(std::size_t end, const std::vector<Distances>& distances);
  void write_group(std::size_t end, const Distances& distances);
  [[nodiscard]] std::vector<std::uint16_t> masks_of_group(std::size_t end,
                                                          const Distances& distances) const;
  void set_states(wire::PortState state);
  void set_port_info(std::size_t end, std::uint8_t port, wire::PortState state);
  [[nodiscard]] std::vector<std::uint8_t> table_of(std::size_t from,
                                                   const std::vector<Distances>& distances) const;
  [[nodiscard]] Distances distances_to(std::size_t end) const;
  [[nodiscard]] std::uint8_t port_towards(std::size_t from, std::size_t to,
                                          const Distances& distances) const;

  Fabric& fabric_;
  PortEnd port_;
  Options options_;
  AgentId asker_{};   // directed routes
  AgentId hearer_{};  // traps
  Phase phase_ = Phase::kIdle;
  std::vector<End> ends_{};                      // the first is the own port
  std::map<wire::Guid, std::size_t> by_guid_{};  // of the port; of switches port 0
  std::map<wire::Guid, wire::Lid> lids_{};       // kept from sweep to sweep
  std::deque<Request> waiting_{};
  std::map<std::uint32_t, Request> outstanding_{};  // by the lower half of the transaction
  std::uint32_t last_transaction_ = 0;
  bool has_failed_ = false;       // a request of this sweep
  bool must_sweep_again_ = true;  // something has happened since this sweep began
  Instant next_sweep_ = Instant::never();
  Instant next_look_ = Instant::never();
  std::size_t sweeps_ = 0;
};

}  // namespace verbatim::fabric::test
