// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/expected.h"
#include "base/time.h"
#include "cm/agent.h"
#include "device/port_info.h"
#include "wire/ids.h"
#include "wire/service_id.h"

namespace verbatim::connect {

class Device;

/// What connections need of an adapter: the agent of queue pair 1, and ports. Tests have one
/// without an adapter.
///
/// lock() and unlock() make it a lock of its own, which is taken after connections_mutex().
class Services {
 public:
  Services() noexcept = default;
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;
  virtual ~Services() = default;

  [[nodiscard]] virtual device::PortInfo port() const = 0;
  [[nodiscard]] virtual bool is_removed() const noexcept = 0;
  [[nodiscard]] virtual Instant now() const noexcept = 0;
  /// From now on Device::handle_news() is called, with no lock held, when there are events that no
  /// command of this layer has caused. Null: no more, and then with the lock held.
  virtual void set_reader(Device* reader) noexcept = 0;

  virtual void lock() noexcept = 0;
  [[nodiscard]] virtual bool try_lock() noexcept = 0;
  virtual void unlock() noexcept = 0;

  // With the lock held.
  [[nodiscard]] virtual cm::Agent& agent() noexcept = 0;
  /// After commands: sends what the agent has to send.
  virtual void send() noexcept = 0;
  [[nodiscard]] virtual std::optional<device::PortChange> poll_port_change() noexcept = 0;
  /// Holds a service at an address against the other processes of the host. kAddressInUse when one
  /// of them, or this process, has it; kAccessDenied when this process may not hold it.
  [[nodiscard]] virtual Status claim(const wire::Gid& address, wire::ServiceId service) = 0;
  virtual void release(const wire::Gid& address, wire::ServiceId service) noexcept = 0;
  /// Requests for a service that is held are to come to this process.
  virtual void attract(const wire::Gid& address, wire::ServiceId service) noexcept = 0;
  [[nodiscard]] virtual bool has_queue_pair(wire::QpNumber number) const noexcept = 0;

  // At the end of the process, with the lock held.
  /// Takes what has arrived.
  virtual void progress() noexcept = 0;
  /// Nothing is to come to this process any more.
  virtual void leave() noexcept = 0;
};

}  // namespace verbatim::connect
