// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/ports.h"

#include <cstdio>

namespace verbatim::abi {
namespace {

/// Other processes at the address would not find the listener, and would refuse its clients.
void explain_lost_user(const IdHandle& id, const IdHandle::Claim& at) {
  std::fprintf(stderr,
               "verbatim: cannot take port %u at %s: this process is not the user any more that "
               "opened the device; call rdma_bind_addr and rdma_listen before giving up that user, "
               "or open the device afterwards\n",
               static_cast<unsigned>(id.source.port), at.device->port().name.c_str());
}

}  // namespace

void release_claim(const IdHandle& id, const IdHandle::Claim& claim) noexcept {
  const std::lock_guard lock(claim.device->adapter().mutex());
  claim.device->gsi().release(claim.address, id.service_at(id.source.port));
}

Status claim_at(IdHandle& id, const IdHandle::Claim& at) {
  const std::lock_guard lock(at.device->adapter().mutex());
  auto claimed = at.device->gsi().claim(at.address, id.service_at(id.source.port));
  if (claimed) id.claims.push_back(at);
  return claimed;
}

std::vector<IdHandle::Claim> addresses_of(const IdHandle& id) {
  if (!id.is_everywhere()) return {{.device = id.device, .address = id.local_gid}};
  std::vector<IdHandle::Claim> all;
  for (CmDevice* device : cm_devices()) {
    for (const device::GidEntry& entry : device->port().gids) {
      if (entry.gid == wire::Gid{}) continue;  // has gone
      const bool is_ipv4 = entry.gid.is_ipv4_mapped();
      const bool fits = is_ipv4 == id.source.is_ipv4 || (is_ipv4 && !id.ipv6_only);
      if (fits) all.push_back({.device = device, .address = entry.gid});
    }
  }
  return all;
}

Status claim_service(IdHandle& id) {
  if (!id.claims.empty()) return Ok{};
  for (const IdHandle::Claim& wanted : addresses_of(id)) {
    if (auto claimed = claim_at(id, wanted); !claimed) {
      if (claimed.error() == Errc::kAccessDenied) explain_lost_user(id, wanted);
      for (const IdHandle::Claim& claim : id.claims) release_claim(id, claim);
      id.claims.clear();
      return claimed;
    }
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
  for (const IdHandle::Claim& claim : id.claims) release_claim(id, claim);
  id.claims.clear();
  if (id.has_given_port) {
    device::given_ports().give_back(static_cast<std::uint16_t>(id.id.ps), id.source.port);
  }
  id.has_given_port = false;
}

}  // namespace verbatim::abi
