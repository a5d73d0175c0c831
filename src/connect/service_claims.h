// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "device/network.h"
#include "device/port_info.h"
#include "host/request_box.h"
#include "host/service_directory.h"
#include "host/service_name.h"
#include "host/slot.h"
#include "link/packet_burst.h"
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"

namespace verbatim::connect {

/// A service at an address, as the host layer names it.
[[nodiscard]] inline host::Service service_at(const wire::Gid& address,
                                              wire::ServiceId id) noexcept {
  return {.address = address.octets, .id = static_cast<std::uint64_t>(id)};
}

/// The services that this process holds at the addresses of an adapter, against the other processes
/// of the host, and how the kernel steers connection requests to the processes behind an address.
///
/// With the adapter's lock held.
class ServiceClaims {
 public:
  /// The parts outlive this object.
  struct Parts {
    const device::PortInfo& port;
    const host::Slot& slot;
    device::Network& network;
  };
  explicit ServiceClaims(const Parts& parts) noexcept : parts_(parts) {}

  /// Holds a service against the other processes of the host, of all users. `epoll` gets the
  /// sockets to which requests are forwarded. kAddressInUse when a process has the service;
  /// kNoMemory when the kernel refuses to watch a socket.
  [[nodiscard]] Status claim(const wire::Gid& address, wire::ServiceId service, int epoll) noexcept;
  void release(const wire::Gid& address, wire::ServiceId service) noexcept;
  /// Steers requests for a service that this process holds to this process, until it is released.
  /// Other processes may have the same address.
  void attract(const wire::Gid& address, wire::ServiceId service) noexcept;
  [[nodiscard]] bool holds(const host::Service& service) const noexcept;

  [[nodiscard]] std::size_t count() const noexcept { return claims_.size(); }
  /// Takes one message that was forwarded to a claim, from 0 to count() - 1, into `room`. Nothing:
  /// there is none. Empty: there was one, but it is no request that the claim takes.
  [[nodiscard]] std::optional<std::span<const std::byte>> take_forwarded(
      std::size_t claim, std::span<std::byte> room) const noexcept;

  /// Writes the steering program of an address anew, from what all processes advertise.
  void steer(const wire::Gid& address) const noexcept;
  void steer_all() const noexcept;
  /// Gives up all services, and steers everything to other processes.
  void leave() noexcept;
  /// In a forked child: the names and sockets are the parent's.
  void abandon_in_child() noexcept { claims_.clear(); }

  /// What the processes of this user advertise at an address. Without an address: which slots are
  /// in use.
  [[nodiscard]] std::optional<host::ServiceDirectory> read_directory(
      const std::array<std::uint8_t, 16>& address = {}) const;

 private:
  struct Claim {
    host::Service service{};
    host::ServiceName name;
    host::ServiceName advertisement{};  // where it is attracted
    host::RequestBox box{};             // where users can be told apart
  };

  Parts parts_;
  std::vector<Claim> claims_;
  bool has_left_ = false;
};

}  // namespace verbatim::connect
