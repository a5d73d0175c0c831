// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/adapter_role.h"
#include "base/expected.h"
#include "base/time.h"
#include "cm/agent.h"
#include "connect/error.h"
#include "connect/subnet_client.h"
#include "device/port_info.h"
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"
#include "wire/headers/mad.h"

namespace verbatim::connect {

class Device;

/// The parts of an adapter that connections use: the agent of queue pair 1, and ports. Tests
/// implement it without an adapter.
///
/// It is Lockable. The lock is taken after connections_mutex().
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
  /// command of this layer has caused. Null: it is not called any more; set with the lock held.
  virtual void set_reader(Device* reader) noexcept = 0;

  virtual void lock() noexcept VB_ACQUIRE(adapter_role) = 0;
  [[nodiscard]] virtual bool try_lock() noexcept VB_TRY_ACQUIRE(true, adapter_role) = 0;
  virtual void unlock() noexcept VB_RELEASE(adapter_role) = 0;

  // With the lock held.
  [[nodiscard]] virtual cm::Agent& agent() noexcept VB_REQUIRES(adapter_role) = 0;
  /// Sends the messages of the agent. Called after commands.
  virtual void send() noexcept VB_REQUIRES(adapter_role) = 0;
  [[nodiscard]] virtual std::optional<device::PortChange> poll_port_change() noexcept
      VB_REQUIRES(adapter_role) = 0;
  /// Reserves a service at an address on this host. kAddressInUse when this or another process has
  /// it; kAccessDenied when this process may not have it.
  [[nodiscard]] virtual Status claim(const wire::Gid& address, wire::ServiceId service)
      VB_REQUIRES(adapter_role) = 0;
  virtual void release(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) = 0;
  /// Steers requests for a reserved service to this process.
  virtual void attract(const wire::Gid& address, wire::ServiceId service) noexcept
      VB_REQUIRES(adapter_role) = 0;
  [[nodiscard]] virtual bool has_queue_pair(wire::QpNumber number) const noexcept
      VB_REQUIRES(adapter_role) = 0;

  // In a subnet of InfiniBand. Without any lock; they wait for the fabric a limited time.

  /// The GID of the node with this IPv4 address, in host byte order. kHostUnreachable: no node has
  /// it.
  [[nodiscard]] virtual Expected<wire::Gid, Error> find_node(std::uint32_t /*address*/) {
    return Error::kHostUnreachable;
  }
  /// To be called before ask_subnet().
  [[nodiscard]] virtual Outcome reach_subnet() { return Error::kNoDevice; }

  // In a subnet of InfiniBand, with the lock held.

  /// Sends a request to subnet administration: its transaction does not matter. The answer, or that
  /// there is none, is an event.
  [[nodiscard]] virtual Expected<SubnetToken> ask_subnet(
      std::span<const std::byte, wire::Mad::kSize> /*octets*/, Duration /*patience*/)
      VB_REQUIRES(adapter_role) {
    return Errc::kNotSupported;
  }
  [[nodiscard]] virtual std::optional<SubnetAnswer> poll_subnet_answer() noexcept
      VB_REQUIRES(adapter_role) {
    return std::nullopt;
  }

  // At the end of the process, with the lock held.
  /// Receives and handles packets.
  virtual void progress() noexcept VB_REQUIRES(adapter_role) = 0;
  /// Steers nothing to this process any more.
  virtual void leave() noexcept VB_REQUIRES(adapter_role) = 0;
};

/// Holds the lock of services while it lives.
class VB_SCOPED_CAPABILITY ServicesGuard {
 public:
  explicit ServicesGuard(Services& services) noexcept VB_ACQUIRE(adapter_role)
      : services_(services) {
    services_.lock();
  }
  ServicesGuard(const ServicesGuard&) = delete;
  ServicesGuard& operator=(const ServicesGuard&) = delete;
  ~ServicesGuard() VB_RELEASE() { services_.unlock(); }

 private:
  Services& services_;
};

}  // namespace verbatim::connect
