// SPDX-License-Identifier: Apache-2.0
// How an id gets its addresses.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "connect/device.h"
#include "connect/id.h"
#include "connect/lock.h"
#include "connect/system.h"

namespace verbatim::connect {
namespace {

constexpr int kBacklogMax = 1024;  // the default of Linux

/// The loopback address in place of the wildcard address.
IpEndpoint loopback_if_any(const IpEndpoint& endpoint) noexcept {
  if (!endpoint.is_any()) return endpoint;
  IpEndpoint here = endpoint;
  if (here.is_ipv4) here.address.octets[12] = 127;
  here.address.octets[15] = 1;
  return here;
}

/// The port space of a service of an id, as Linux finds it (cma_select_ib_ps): an id of the space
/// IB may have services of all spaces, any other one those of its own.
std::optional<wire::PortSpace> space_of(const IpEndpoint& endpoint, wire::PortSpace own) noexcept {
  using wire::PortSpace;
  constexpr std::array kSpaces{PortSpace::kIb, PortSpace::kTcp, PortSpace::kUdp};
  constexpr int kPortBits = 16;
  if (!endpoint.ib) return own;
  const std::uint64_t mask = endpoint.ib->service_mask >> kPortBits << kPortBits;
  for (const PortSpace space : kSpaces) {
    const std::uint64_t prefix = std::uint64_t{static_cast<std::uint16_t>(space)} << kPortBits;
    const bool is_allowed = own == PortSpace::kIb || own == space;
    if (is_allowed && (endpoint.ib->service & mask) == (prefix & mask)) return space;
  }
  return std::nullopt;
}

/// The GID of an address that an id is bound to.
wire::Gid gid_of(const Device* device, const IpEndpoint& source) {
  if (device == nullptr) return {};
  return device->is_native() ? device->own_gid() : source.address;
}

}  // namespace

/// On a fabric all addresses of nodes are loopback addresses of the machine.
bool Id::is_of_other_node(const IpEndpoint& at) {
  Device* const native = system_.native_device();
  return native != nullptr && at.is_of_fabrics() && !native->is_own(at);
}

/// An id that is bound to the wildcard address has no device yet. As in Linux the same holds for a
/// loopback address that no device has.
Outcome Id::bind(const IpEndpoint& source) {
  if (state_ != IdState::kIdle) return Error::kInvalidArgument;
  const bool is_ib = source.ib.has_value();
  if (is_ib && system_.native_device() == nullptr) return Error::kAddressFamily;
  const auto space = space_of(source, space_);
  if (!space) return Error::kProtocol;
  Device* const device = source.is_any() ? nullptr : system_.device_at(source);
  const bool is_here = source.is_any() || (source.is_loopback() && !is_of_other_node(source));
  if (device == nullptr && !is_here) {
    if (is_ib || is_of_other_node(source)) return Error::kAddressNotAvailable;
    return system_.is_local(source) ? Error::kNoDevice : Error::kAddressNotAvailable;
  }
  if (device == nullptr && system_.devices().empty()) return Error::kNoDevice;
  const Binding wanted{.source = source,
                       .device = device,
                       .local = gid_of(device, source),
                       .space = *space,
                       .ipv6_only = options_.ipv6_only};
  if (auto taken = listening_.take_port(wanted, options_.reuses_address); !taken) return taken;
  {
    const LockGuard lock(connections_mutex());
    ends_.source = listening_.binding().source;
    ends_.local = listening_.binding().local;
    if (device != nullptr) attach_to(*device);
  }
  state_ = IdState::kBound;
  return Ok{};
}

Outcome Id::resolve_address(const std::optional<IpEndpoint>& source, const IpEndpoint& destination,
                            Duration patience) {
  if (state_ == IdState::kIdle) {
    const auto from = source.value_or(IpEndpoint::any_like(destination));
    if (auto bound = bind(from); !bound) return bound;
  }
  if (state_ != IdState::kBound) return Error::kInvalidArgument;
  const IpEndpoint from = ends_.source;
  if (!from.is_of_family(destination) && !from.is_any()) return Error::kInvalidArgument;
  const IpEndpoint to = loopback_if_any(destination);
  const auto route = system_.find_route(from, to);
  const bool is_event = system_.native_device() != nullptr;
  if (!route && route.error() != Error::kNoDevice && !is_event) return route.error();
  if (!route) {
    const LockGuard lock(connections_mutex());
    tell_failure(EventKind::kAddressFailed, route.error());
    return Ok{};
  }
  state_ = IdState::kResolving;
  if (route->device->is_native() || system_.device_of(to) != nullptr) {
    finish_resolving(*route, Ok{});
  } else {
    system_.seek_neighbour(*this, *route, patience);
  }
  return Ok{};
}

void Id::finish_resolving(const Route& route, Outcome outcome) {
  const LockGuard lock(connections_mutex());
  if (!outcome) {
    state_ = IdState::kBound;
    return tell_failure(EventKind::kAddressFailed, outcome.error());
  }
  Device* const before = ends_.device;
  ends_ = route;
  ends_.device = before;
  attach_to(*route.device);
  state_ = IdState::kAddressResolved;
  tell(EventKind::kAddressResolved);
}

/// Every route has one path. On RoCE the border writes its path record.
Outcome Id::resolve_route(Duration patience) {
  if (state_ != IdState::kAddressResolved) return Error::kInvalidArgument;
  if (ends_.device->is_native()) return ask_for_path(patience);
  state_ = IdState::kRouteResolved;
  const LockGuard lock(connections_mutex());
  tell(EventKind::kRouteResolved);
  return Ok{};
}

Outcome Id::listen(int backlog) {
  if (state_ == IdState::kIdle) {
    if (auto bound = bind(IpEndpoint::any(true)); !bound) return bound;
  }
  if (state_ != IdState::kBound) return Error::kInvalidArgument;
  const int wanted = backlog > 0 ? std::min(backlog, kBacklogMax) : kBacklogMax;
  if (auto listens = listening_.listen(static_cast<std::uint32_t>(wanted)); !listens) {
    return listens;
  }
  state_ = IdState::kListening;
  if (Device* const native = system_.native_device()) {
    (void)native->services().reach_subnet();  // else the ends of peers are noticed later
  }
  return Ok{};
}

}  // namespace verbatim::connect
