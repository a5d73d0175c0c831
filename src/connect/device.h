// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/adapter_role.h"
#include "base/mutex.h"
#include "cm/agent.h"
#include "cm/event.h"
#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "connect/lock.h"
#include "connect/services.h"
#include "connect/subnet_group.h"

namespace verbatim::connect {

class Id;

/// What an id has asked subnet administration.
struct SubnetQuestion {
  enum class About : std::uint8_t { kPath, kBroadcastGroup, kJoin };
  Id* id = nullptr;
  About about{};
  std::uint32_t group = 0;  // its number, of the last two
};

/// A device as connections use it. Its tables map communications and listeners to ids. It polls the
/// events of communications and passes them to the ids.
///
/// connections_mutex() guards the tables. A device of the process is never destroyed, because ids
/// may refer to it after its interface was removed.
class Device {
 public:
  /// `border` points to the handle of the device in the border.
  Device(std::unique_ptr<Services> services, void* border);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] Services& services() const noexcept { return *services_; }
  [[nodiscard]] void* border() const noexcept { return border_; }
  [[nodiscard]] device::PortInfo port() const { return services_->port(); }
  /// Whether it is the port of a subnet of InfiniBand, where addresses of ids are not GIDs.
  [[nodiscard]] bool is_native() const noexcept { return is_native_; }
  /// Of a native device: the GID by which ids listen and connect.
  [[nodiscard]] wire::Gid own_gid() const;
  /// Of a native device: the IPv4 address of the node, in host byte order; 0: none.
  [[nodiscard]] std::uint32_t own_ipv4() const;
  /// Of a native device: whether the endpoint is an address of the node.
  [[nodiscard]] bool is_own(const IpEndpoint& endpoint) const;
  /// The index of an address in the table of the port.
  [[nodiscard]] std::optional<std::uint32_t> index_of(const wire::Gid& gid) const;
  /// The address that is used in place of the loopback address of a family.
  [[nodiscard]] std::optional<wire::Gid> loopback_gid(bool is_ipv4) const;

  /// Runs `command(cm::Agent&, Instant)`, sends, and polls the events that result. Called without
  /// any lock. The command runs with connections_mutex() and the lock of the services held.
  template <typename Command>
  auto with_agent(Command&& command) {
    const LockGuard lock(connections_mutex());
    auto result = on_agent(command);
    (void)poll();
    return result;
  }

  /// Sends a request to subnet administration for an id, which gets the answer. Called without any
  /// lock, after Services::reach_subnet().
  [[nodiscard]] Outcome ask_subnet(const SubnetQuestion& question, const MadOctets& octets,
                                   Duration patience);
  /// The same in the middle of events.
  [[nodiscard]] Outcome ask_subnet_amid(const SubnetQuestion& question, const MadOctets& octets,
                                        Duration patience) VB_REQUIRES(connections_mutex());
  /// The same without waiting for an answer.
  void tell_subnet(const MadOctets& octets, Duration patience) noexcept;

  /// Polls events. Called without any lock.
  void handle_news() noexcept;
  /// At the end of the process: ends all communications, and waits up to 150 ms for the answers of
  /// the peers. With both locks held.
  void take_leave() noexcept VB_REQUIRES(connections_mutex(), adapter_role);

  // With connections_mutex() held.
  void add_communication(wire::CommId communication, Id& id) VB_REQUIRES(connections_mutex());
  void remove_communication(wire::CommId communication) noexcept VB_REQUIRES(connections_mutex());
  void add_listener(cm::ListenerId listener, Id& id) VB_REQUIRES(connections_mutex());
  void remove_listener(cm::ListenerId listener) noexcept VB_REQUIRES(connections_mutex());
  /// The id uses this address: it gets an event when the address or the device is removed.
  void add_user(Id& id, const wire::Gid& address) VB_REQUIRES(connections_mutex());
  void remove_user(Id& id) noexcept VB_REQUIRES(connections_mutex());
  /// The id gets no answers of the subnet any more.
  void remove_questions(const Id& id) noexcept VB_REQUIRES(connections_mutex());

 private:
  template <typename Command>
  auto on_agent(Command&& command) VB_REQUIRES(connections_mutex()) {
    const ServicesGuard lock(*services_);
    auto result = command(services_->agent(), services_->now());
    services_->send();
    return result;
  }
  /// Whether addresses of the port have changed.
  bool poll() noexcept VB_REQUIRES(connections_mutex());
  void handle(const cm::AgentEvent& event) VB_REQUIRES(connections_mutex());
  void handle(const device::PortChange& change) VB_REQUIRES(connections_mutex());
  void handle(const SubnetAnswer& answer) VB_REQUIRES(connections_mutex());
  void await_disconnects() noexcept VB_REQUIRES(adapter_role);

  std::unique_ptr<Services> services_;
  void* border_;
  const bool is_native_;
  std::unordered_map<std::uint32_t, Id*> communications_
      VB_GUARDED_BY(connections_mutex());  // by communication ID
  std::unordered_map<std::uint32_t, Id*> listeners_
      VB_GUARDED_BY(connections_mutex());  // by listener
  std::unordered_map<Id*, wire::Gid> users_ VB_GUARDED_BY(connections_mutex());
  std::unordered_map<std::uint32_t, SubnetQuestion> questions_
      VB_GUARDED_BY(connections_mutex());  // by SubnetToken
};

}  // namespace verbatim::connect
