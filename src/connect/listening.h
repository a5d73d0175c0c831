// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cm/requests.h"
#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "wire/cm/service_id.h"
#include "wire/headers/ids.h"

namespace verbatim::connect {

class Device;
class Id;
class System;

/// The address and the port that an id is bound to.
struct Binding {
  IpEndpoint source{};
  Device* device = nullptr;  // the device with the address; null: none
  wire::Gid local{};         // the GID of `source` on the device
  wire::PortSpace space{};
  bool ipv6_only = false;

  /// Whether it means every address of every device: the wildcard address does, and a loopback
  /// address that no device has.
  [[nodiscard]] bool is_everywhere() const noexcept {
    return source.is_any() || (device == nullptr && source.is_loopback());
  }
  [[nodiscard]] wire::ServiceId service() const noexcept {
    return wire::service_id_of({.space = space, .port = source.port});
  }
};

/// The port of an id. It is reserved at all addresses that the id is bound to, and requests are
/// accepted there. An id that is bound to every address also listens at addresses that are added
/// later.
///
/// Thread: one at a time. follow_addresses() may run at the same time.
class Listening {
 public:
  Listening(System& system, Id& owner) noexcept : system_(system), owner_(owner) {}
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  [[nodiscard]] const Binding& binding() const noexcept { return binding_; }
  /// Takes the port that `binding` names, or a free one. A port that may be shared is reserved only
  /// when the id listens.
  [[nodiscard]] Outcome take_port(const Binding& binding, bool is_shared);
  void give_port_back() noexcept;

  /// Accepts requests for the port. kAddressInUse when another id or process has it.
  [[nodiscard]] Outcome listen(std::uint32_t backlog);
  void stop() noexcept;

  /// Addresses or devices were added or removed: updates the ids that listen at every address.
  static void follow_addresses();

 private:
  struct Place {
    Device* device = nullptr;
    wire::Gid address{};
    friend bool operator==(const Place&, const Place&) noexcept = default;
  };
  struct Listener {
    Place place{};
    cm::ListenerId id{};
  };
  [[nodiscard]] std::vector<Place> places() const;
  [[nodiscard]] Outcome claim_all();
  [[nodiscard]] Outcome claim(const Place& at);
  void release(const Place& at) const noexcept;
  [[nodiscard]] Outcome start(const Place& at);
  static void stop(const Listener& listener) noexcept;
  [[nodiscard]] bool listens(const Place& at) const noexcept;
  [[nodiscard]] bool claims(const Place& at) const noexcept;
  void leave_lost_places(const std::vector<Place>& wanted);
  void listen_at_new_places(const std::vector<Place>& wanted);

  System& system_;
  Id& owner_;
  Binding binding_{};
  bool has_given_port_ = false;  // a free one that the system chose
  std::uint32_t backlog_ = 0;
  // Guarded by the lock of listening.cc if the id listens at every address.
  std::vector<Place> claims_;
  std::vector<Listener> listeners_;
};

}  // namespace verbatim::connect
