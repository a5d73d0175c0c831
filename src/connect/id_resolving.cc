// SPDX-License-Identifier: Apache-2.0
// How an id gets its addresses.
#include <algorithm>

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

}  // namespace

/// An id that is bound to the wildcard address has no device yet. As in Linux the same holds for a
/// loopback address that no device has.
Outcome Id::bind(const IpEndpoint& source) {
  if (state_ != IdState::kIdle) return Error::kInvalidArgument;
  Device* const device = source.is_any() ? nullptr : system_.device_with(source.address);
  if (device == nullptr && !source.is_any() && !source.is_loopback()) {
    return system_.is_local(source) ? Error::kNoDevice : Error::kAddressNotAvailable;
  }
  if (device == nullptr && system_.devices().empty()) return Error::kNoDevice;
  const Binding wanted{.source = source,
                       .device = device,
                       .local = device == nullptr ? wire::Gid{} : source.address,
                       .space = space_,
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
    const auto from = source.value_or(IpEndpoint::any(destination.is_ipv4));
    if (auto bound = bind(from); !bound) return bound;
  }
  if (state_ != IdState::kBound) return Error::kInvalidArgument;
  const IpEndpoint from = ends_.source;
  if (from.is_ipv4 != destination.is_ipv4 && !from.is_any()) return Error::kInvalidArgument;
  const IpEndpoint to = loopback_if_any(destination);
  const auto route = system_.find_route(from, to);
  if (!route && route.error() != Error::kNoDevice) return route.error();
  if (!route) {
    const LockGuard lock(connections_mutex());
    tell_failure(EventKind::kAddressFailed, Error::kNoDevice);
    return Ok{};
  }
  state_ = IdState::kResolving;
  if (system_.device_of(to) != nullptr) {
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

/// Every route has one path. The border writes its path record.
Outcome Id::resolve_route() {
  if (state_ != IdState::kAddressResolved) return Error::kInvalidArgument;
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
  return Ok{};
}

}  // namespace verbatim::connect
