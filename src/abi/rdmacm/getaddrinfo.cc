// SPDX-License-Identifier: Apache-2.0
// rdma_getaddrinfo(3), rdma_freeaddrinfo(3), rdma_resolve_addrinfo(3).
#include <netdb.h>

#include <cstdlib>
#include <cstring>

#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"
#include "abi/rdmacm/newer.h"
#include "connect/ip_endpoint.h"

namespace verbatim::abi {
namespace {

/// Each part is allocated separately. Programs free it with rdma_freeaddrinfo only.
bool keep_address(const sockaddr* from, socklen_t octets, sockaddr*& to, socklen_t& to_octets) {
  if (from == nullptr || octets == 0) return true;
  to = static_cast<sockaddr*>(std::malloc(octets));
  if (to == nullptr) return false;
  std::memcpy(to, from, octets);
  to_octets = octets;
  return true;
}

/// The errno value of an error number of getaddrinfo.
int errno_of(int failure) noexcept {
  switch (failure) {
    case EAI_SYSTEM:
      return errno;
    case EAI_MEMORY:
      return ENOMEM;
    case EAI_AGAIN:
      return EAGAIN;
    case EAI_FAMILY:
      return EAFNOSUPPORT;
    case EAI_NONAME:
    case EAI_SERVICE:
      return ENODATA;
    default:
      return EINVAL;
  }
}

/// Derives the port space from the type of queue pair, or the type from the port space.
void choose_service(rdma_addrinfo& info, const rdma_addrinfo* hints) noexcept {
  info.ai_port_space = hints != nullptr ? hints->ai_port_space : 0;
  info.ai_qp_type = hints != nullptr ? hints->ai_qp_type : 0;
  if (info.ai_port_space == 0) {
    info.ai_port_space = info.ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
  }
  if (info.ai_qp_type == 0) {
    const bool is_datagram =
        info.ai_port_space == RDMA_PS_UDP || info.ai_port_space == RDMA_PS_IPOIB;
    info.ai_qp_type = is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
  }
}

/// What an address of the family AF_IB is made of: a GID, which getaddrinfo(3) reads as an IPv6
/// address, or the wildcard address; the port space and the port.
int keep_as_ib(const addrinfo& found, const rdma_addrinfo& info, sockaddr*& to, socklen_t& octets) {
  constexpr std::uint64_t kSpaceMask = 0xffff'ffff'ffff'0000;
  constexpr std::uint64_t kPortMask = 0xffff;
  const auto named = connect::endpoint_of(found.ai_addr);
  if (!named) return EAFNOSUPPORT;
  connect::IpEndpoint ib = *named;
  if (ib.is_any()) ib.address = {};
  ib.is_ipv4 = false;
  const auto space = static_cast<std::uint64_t>(info.ai_port_space);
  ib.ib = connect::IbPart{.service = space << 16 | ib.port,
                          .service_mask = kSpaceMask | (ib.port != 0 ? kPortMask : 0)};
  sockaddr_storage storage{};
  connect::store(ib, storage);
  const auto* address = reinterpret_cast<const sockaddr*>(&storage);
  return keep_address(address, connect::octets_of(address), to, octets) ? 0 : ENOMEM;
}

/// Whether names are GIDs, as librdmacm of rdma-core has it: that needs RAI_FAMILY and
/// RAI_NUMERICHOST, since no directory of names knows GIDs.
bool wants_ib(const rdma_addrinfo& info, int family) noexcept {
  constexpr int kNeeded = RAI_FAMILY | RAI_NUMERICHOST;
  return family == connect::kFamilyIb && (info.ai_flags & kNeeded) == kNeeded;
}

/// The address that the names stand for, put into its place. An errno value.
int look_up(const char* node, const char* service, rdma_addrinfo& info, int family) {
  const bool is_passive = (info.ai_flags & RAI_PASSIVE) != 0;
  const bool is_ib = wants_ib(info, family);
  addrinfo hints{};
  hints.ai_family = is_ib ? AF_INET6 : family == connect::kFamilyIb ? AF_UNSPEC : family;
  hints.ai_socktype = SOCK_STREAM;  // one answer per address is enough
  if (is_passive) hints.ai_flags |= AI_PASSIVE;
  if ((info.ai_flags & RAI_NUMERICHOST) != 0) hints.ai_flags |= AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(node, service, &hints, &found)) return errno_of(failure);
  sockaddr*& kept_at = is_passive ? info.ai_src_addr : info.ai_dst_addr;
  socklen_t& kept_octets = is_passive ? info.ai_src_len : info.ai_dst_len;
  if (is_ib) {
    info.ai_family = connect::kFamilyIb;
    const int refused = keep_as_ib(*found, info, kept_at, kept_octets);
    ::freeaddrinfo(found);
    return refused;
  }
  info.ai_family = found->ai_family;
  const bool kept = keep_address(found->ai_addr, found->ai_addrlen, kept_at, kept_octets);
  ::freeaddrinfo(found);
  return kept ? 0 : ENOMEM;
}

int fill(rdma_addrinfo& info, const char* node, const char* service, const rdma_addrinfo* hints) {
  if (hints != nullptr) info.ai_flags = hints->ai_flags;
  choose_service(info, hints);
  const int family = hints != nullptr ? hints->ai_family : AF_UNSPEC;
  if (node != nullptr || service != nullptr) {
    if (const int refused = look_up(node, service, info, family)) return refused;
  }
  if (hints == nullptr) return 0;
  if (info.ai_src_addr == nullptr &&
      !keep_address(hints->ai_src_addr, hints->ai_src_len, info.ai_src_addr, info.ai_src_len)) {
    return ENOMEM;
  }
  if (info.ai_dst_addr == nullptr &&
      !keep_address(hints->ai_dst_addr, hints->ai_dst_len, info.ai_dst_addr, info.ai_dst_len)) {
    return ENOMEM;
  }
  const sockaddr* const known = info.ai_src_addr != nullptr ? info.ai_src_addr : info.ai_dst_addr;
  if (known == nullptr) return EINVAL;
  if (info.ai_family == 0) info.ai_family = family != 0 ? family : known->sa_family;
  return 0;
}

rdma_addrinfo* copy_of(const rdma_addrinfo& from) {
  auto* info = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (info == nullptr) return nullptr;
  info->ai_flags = from.ai_flags;
  info->ai_family = from.ai_family;
  info->ai_qp_type = from.ai_qp_type;
  info->ai_port_space = from.ai_port_space;
  if (keep_address(from.ai_src_addr, from.ai_src_len, info->ai_src_addr, info->ai_src_len) &&
      keep_address(from.ai_dst_addr, from.ai_dst_len, info->ai_dst_addr, info->ai_dst_len)) {
    return info;
  }
  cm_functions::freeaddrinfo(info);
  return nullptr;
}

}  // namespace

namespace cm_functions {

int getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                rdma_addrinfo** result) {
  const bool has_hint = hints != nullptr && (hints->ai_src_len != 0 || hints->ai_dst_len != 0);
  if (node == nullptr && service == nullptr && !has_hint) return fail(EINVAL);
  auto* info = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
  if (info == nullptr) return fail(ENOMEM);
  if (const int refused = fill(*info, node, service, hints)) {
    cm_functions::freeaddrinfo(info);
    return fail(refused);
  }
  *result = info;
  return 0;
}

void freeaddrinfo(rdma_addrinfo* info) {
  while (info != nullptr) {
    rdma_addrinfo* next = info->ai_next;
    for (void* part :
         {static_cast<void*>(info->ai_src_addr), static_cast<void*>(info->ai_dst_addr),
          static_cast<void*>(info->ai_src_canonname), static_cast<void*>(info->ai_dst_canonname),
          info->ai_route, info->ai_connect}) {
      std::free(part);
    }
    std::free(info);
    info = next;
  }
}

int resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                     const rdma_addrinfo* hints) {
  IdHandle& handle = handle_of(id);
  rdma_addrinfo* info = nullptr;
  const int failed = getaddrinfo(node, service, hints, &info) == 0 ? 0 : errno;
  if (handle.resolved_info != nullptr) freeaddrinfo(handle.resolved_info);
  handle.resolved_info = info;
  const int kind = failed == 0 ? kEventAddrinfoResolved : kEventAddrinfoError;
  handle.object->post({.kind = kind, .status = -failed});
  return complete(handle);
}

int query_addrinfo(rdma_cm_id* id, rdma_addrinfo** result) {
  const IdHandle& handle = handle_of(id);
  if (handle.resolved_info == nullptr) return fail(ENODATA);
  *result = copy_of(*handle.resolved_info);
  return *result == nullptr ? fail(ENOMEM) : 0;
}

}  // namespace cm_functions
}  // namespace verbatim::abi
