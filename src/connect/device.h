// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "cm/agent.h"
#include "cm/event.h"
#include "connect/lock.h"
#include "connect/services.h"

namespace verbatim::connect {

class Id;

/// A device as connections use it: which id has which communication and which listener on it. It
/// polls what happens to communications and hands it to the ids.
///
/// The tables belong to connections_mutex(). A device of the process is never destroyed: ids may
/// stand on it after its interface has gone.
class Device {
 public:
  /// `border` is what the border knows the device by.
  Device(std::unique_ptr<Services> services, void* border);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] Services& services() const noexcept { return *services_; }
  [[nodiscard]] void* border() const noexcept { return border_; }
  [[nodiscard]] device::PortInfo port() const { return services_->port(); }
  /// Where an address stands in the table of the port.
  [[nodiscard]] std::optional<std::uint32_t> index_of(const wire::Gid& gid) const;
  /// The address that stands for the loopback address of a family.
  [[nodiscard]] std::optional<wire::Gid> loopback_gid(bool is_ipv4) const;

  /// Runs `command(cm::Agent&, Instant)`, sends, and takes the events that follow. Without any
  /// lock; the command has connections_mutex() and the lock of the services.
  template <typename Command>
  auto with_agent(Command&& command) {
    const std::lock_guard lock(connections_mutex());
    auto result = on_agent(command);
    poll();
    return result;
  }

  /// There are events. Without any lock.
  void handle_news() noexcept;
  /// At the end of the process: ends all communications, and waits a little for the peers' answers.
  /// With both locks held.
  void take_leave() noexcept;

  // With connections_mutex() held.
  void add_communication(wire::CommId communication, Id& id);
  void remove_communication(wire::CommId communication) noexcept;
  void add_listener(cm::ListenerId listener, Id& id);
  void remove_listener(cm::ListenerId listener) noexcept;
  /// The id has this address, and is told what becomes of it.
  void add_user(Id& id, const wire::Gid& address);
  void remove_user(Id& id) noexcept;

 private:
  template <typename Command>
  auto on_agent(Command&& command) {
    const std::lock_guard lock(*services_);
    auto result = command(services_->agent(), services_->now());
    services_->send();
    return result;
  }
  void poll() noexcept;
  void handle(const cm::Event& event);
  void handle(const device::PortChange& change);
  void await_farewells() noexcept;

  std::unique_ptr<Services> services_;
  void* border_;
  std::unordered_map<std::uint32_t, Id*> communications_;  // by communication ID
  std::unordered_map<std::uint32_t, Id*> listeners_;       // by listener
  std::unordered_map<Id*, wire::Gid> users_;
};

}  // namespace verbatim::connect
