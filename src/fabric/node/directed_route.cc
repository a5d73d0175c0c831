// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/directed_route.h"

#include "base/byte_order.h"
#include "wire/headers/smp.h"

namespace verbatim::fabric {
namespace {

using Kind = DirectedHop::Kind;
using Octets = std::span<std::byte, wire::Mad::kSize>;

constexpr std::size_t kPointer = 6;
constexpr std::size_t kInitialPath = 128;
constexpr std::size_t kReturnPath = 192;

/// The fields of a packet that its way depends on.
struct Route {
  bool returning = false;
  unsigned pointer = 0;
  unsigned count = 0;
  wire::Lid source{};
  wire::Lid destination{};
};

Route route_of(std::span<const std::byte, wire::Mad::kSize> smp) noexcept {
  return {.returning = (load_be<std::uint16_t, 4>(smp) & wire::Smp::kReturningBit) != 0,
          .pointer = load_be<std::uint8_t, kPointer>(smp),
          .count = load_be<std::uint8_t, 7>(smp),
          .source = wire::Lid{load_be<std::uint16_t, 32>(smp)},
          .destination = wire::Lid{load_be<std::uint16_t, 34>(smp)}};
}

void set_pointer(Octets smp, unsigned pointer) noexcept {
  smp[kPointer] = static_cast<std::byte>(pointer);
}

DirectedHop leave(Octets smp, std::size_t path, unsigned hop) noexcept {
  return {.kind = Kind::kLeave, .port = std::to_integer<std::uint8_t>(smp[path + hop])};
}

/// At one end of the directed part: the packet is for this node, or goes on by LID.
DirectedHop end_of_path(wire::Lid next, bool is_switch) noexcept {
  if (next == wire::Lid::kPermissive) return {.kind = Kind::kArrived};
  if (!is_switch) return {};
  return {.kind = Kind::kByLid, .lid = next};
}

DirectedHop next_outbound(Octets smp, const Route& route, const DirectedRoutePlace& place) {
  if (!place.ingress) {  // the directed part begins here, or ended before a part by LID
    if (route.pointer == 0 && route.count != 0) {
      set_pointer(smp, 1);
      return leave(smp, kInitialPath, 1);
    }
    if (route.pointer == 0) {
      set_pointer(smp, 1);
      return end_of_path(route.destination, place.is_switch);
    }
    return route.pointer == route.count + 1 ? DirectedHop{.kind = Kind::kArrived} : DirectedHop{};
  }
  if (route.pointer == 0 || route.pointer > route.count) return {};
  smp[kReturnPath + route.pointer] = static_cast<std::byte>(*place.ingress);
  set_pointer(smp, route.pointer + 1);
  if (route.pointer == route.count) return end_of_path(route.destination, place.is_switch);
  return place.is_switch ? leave(smp, kInitialPath, route.pointer + 1) : DirectedHop{};
}

DirectedHop next_inbound(Octets smp, const Route& route, const DirectedRoutePlace& place) {
  if (!place.ingress) {
    if (route.pointer == 0) return {.kind = Kind::kArrived};
    if (route.pointer != route.count + 1) return {};
    set_pointer(smp, route.count);
    return route.count == 0 ? end_of_path(route.source, place.is_switch)
                            : leave(smp, kReturnPath, route.count);
  }
  if (route.pointer == 0 || route.pointer > route.count) return {};
  set_pointer(smp, route.pointer - 1);
  if (route.pointer == 1) return end_of_path(route.source, place.is_switch);
  return place.is_switch ? leave(smp, kReturnPath, route.pointer - 1) : DirectedHop{};
}

}  // namespace

DirectedHop next_directed_hop(Octets smp, const DirectedRoutePlace& place) noexcept {
  const Route route = route_of(smp);
  if (route.count > wire::Smp::kHopCountMax) return {};
  return route.returning ? next_inbound(smp, route, place) : next_outbound(smp, route, place);
}

}  // namespace verbatim::fabric
