// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cm/requests.h"
#include "connect/error.h"
#include "connect/ip_endpoint.h"
#include "wire/ids.h"
#include "wire/service_id.h"

namespace verbatim::connect {

class Device;
class Id;
class System;

/// The address and the port that an id is bound to.
struct Binding {
  IpEndpoint source{};
  Device* device = nullptr;  // that has the address; null: none
  wire::Gid local{};         // what `source` is on the device
  wire::PortSpace space{};
  bool ipv6_only = false;

  /// Bound to every address of every device: by the address of all, or by a loopback address that
  /// no device has.
  [[nodiscard]] bool is_everywhere() const noexcept {
    return source.is_any() || (device == nullptr && source.is_loopback());
  }
  [[nodiscard]] wire::ServiceId service() const noexcept {
    return wire::service_id_of({.space = space, .port = source.port});
  }
};

/// The port of an id: it is held against other ids and processes at all addresses that the id is
/// bound to, and requests for it are heard there. An id that is bound to every address follows the
/// addresses that come and go while it listens.
///
/// Thread: one at a time, beside follow_addresses().
class Listening {
 public:
  Listening(System& system, Id& owner) noexcept : system_(system), owner_(owner) {}
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  [[nodiscard]] const Binding& binding() const noexcept { return binding_; }
  /// Takes the port that `binding` names, or one that is free. A port that may be shared is held
  /// only when the id listens.
  [[nodiscard]] Outcome take_port(const Binding& binding, bool is_shared);
  void give_port_back() noexcept;

  /// Hears requests for the port. kAddressInUse when another id or process does.
  [[nodiscard]] Outcome listen(std::uint32_t backlog);
  void stop() noexcept;

  /// Addresses or devices have come or gone: ids that listen everywhere listen at these from now
  /// on.
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
  bool has_given_port_ = false;  // one that was not asked for by number
  std::uint32_t backlog_ = 0;
  // Of an id that listens everywhere, guarded by the lock of listening.cc.
  std::vector<Place> claims_;
  std::vector<Listener> listeners_;
};

}  // namespace verbatim::connect
