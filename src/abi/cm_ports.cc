// SPDX-License-Identifier: Apache-2.0
#include "abi/cm_ports.h"

namespace verbatim::abi {
namespace {

void release(const IdHandle& id, const IdHandle::Claim& claim) noexcept {
  const std::lock_guard lock(claim.device->adapter().mutex());
  claim.device->gsi().release(claim.address, id.service_at(id.source.port));
}

}  // namespace

std::vector<IdHandle::Claim> addresses_of(const IdHandle& id) {
  if (!id.source.is_any()) return {{.device = id.device, .address = id.local_gid}};
  std::vector<IdHandle::Claim> all;
  for (CmDevice* device : cm_devices()) {
    for (const device::GidEntry& entry : device->port().gids) {
      const bool is_ipv4 = entry.gid.is_ipv4_mapped();
      const bool fits = is_ipv4 == id.source.is_ipv4 || (is_ipv4 && !id.ipv6_only);
      if (fits) all.push_back({.device = device, .address = entry.gid});
    }
  }
  return all;
}

Status claim_service(IdHandle& id) {
  if (!id.claims.empty()) return Ok{};
  const auto service = id.service_at(id.source.port);
  for (const IdHandle::Claim& wanted : addresses_of(id)) {
    Status claimed = Ok{};
    {
      const std::lock_guard lock(wanted.device->adapter().mutex());
      claimed = wanted.device->gsi().claim(wanted.address, service);
    }
    if (!claimed) {
      for (const IdHandle::Claim& claim : id.claims) release(id, claim);
      id.claims.clear();
      return claimed;
    }
    id.claims.push_back(wanted);
  }
  return Ok{};
}

Status take_port(IdHandle& id) {
  if (id.source.port != 0) return id.reuses_address ? Status(Ok{}) : claim_service(id);
  auto given = device::given_ports().take(static_cast<std::uint16_t>(id.id.ps));
  if (!given) return given.error();
  id.source.port = *given;
  id.has_given_port = true;
  return Ok{};
}

void give_port_back(IdHandle& id) noexcept {
  for (const IdHandle::Claim& claim : id.claims) release(id, claim);
  id.claims.clear();
  if (id.has_given_port) {
    device::given_ports().give_back(static_cast<std::uint16_t>(id.id.ps), id.source.port);
  }
  id.has_given_port = false;
}

}  // namespace verbatim::abi
