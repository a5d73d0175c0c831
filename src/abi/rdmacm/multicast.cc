// SPDX-License-Identifier: Apache-2.0
// rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3).
#include "abi/rdmacm/multicast.h"

#include <algorithm>
#include <cstring>

#include "abi/rdmacm/functions.h"

namespace verbatim::abi {
namespace {

constexpr std::uint32_t kMulticastQpn = 0x00ff'ffff;

ibv_gid gid_of(const wire::Gid& gid) noexcept {
  ibv_gid result;
  std::memcpy(result.raw, gid.octets.data(), sizeof result.raw);
  return result;
}

void detach(IdHandle& id, Membership& membership) noexcept {
  if (!membership.is_attached || id.id.qp == nullptr) return;
  const ibv_gid gid = gid_of(membership.mgid);
  (void)ibv_detach_mcast(id.id.qp, &gid, 0);  // it was attached
  membership.is_attached = false;
}

int join(IdHandle& id, const sockaddr* address, void* context) {
  const auto group = endpoint_of(address);
  if (!group) return fail(EAFNOSUPPORT);
  if (id.device == nullptr || !id.is_datagram() || !group->address.is_multicast()) {
    return fail(EINVAL);
  }
  if (!group->is_ipv4) return fail(EOPNOTSUPP);  // as Linux has it over RoCEv2
  auto membership = std::make_unique<Membership>();
  membership->group = *group;
  membership->mgid = group->address;
  membership->context = context;
  EventHandle* event = make_event(id, RDMA_CM_EVENT_MULTICAST_JOIN);
  rdma_ud_param& ud = event->event.param.ud;
  ud.private_data = context;
  ud.ah_attr = address_vector(id, {.local = id.local_gid, .remote = group->address});
  ud.qp_num = kMulticastQpn;
  ud.qkey = kUdpQKey;
  id.memberships.push_back(std::move(membership));
  notify(id, event);
  return complete(id);
}

}  // namespace

void present_join(IdHandle& id, EventHandle& event) {
  if (id.id.qp == nullptr) return;
  const ibv_gid wanted = event.event.param.ud.ah_attr.grh.dgid;
  for (const auto& membership : id.memberships) {
    const ibv_gid gid = gid_of(membership->mgid);
    if (membership->is_attached || std::memcmp(gid.raw, wanted.raw, sizeof gid.raw) != 0) continue;
    const int refused = ibv_attach_mcast(id.id.qp, &gid, 0);
    membership->is_attached = refused == 0;
    if (refused == 0) return;
    event.event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
    event.event.status = -refused;
    return;
  }
}

void leave_all_groups(IdHandle& id) {
  for (const auto& membership : id.memberships) detach(id, *membership);
  id.memberships.clear();
}

namespace cm_functions {

int join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return join(handle_of(id), address, context);
}

int join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  if (attr == nullptr || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return fail(ENOTSUP);
  if ((attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) == 0) return fail(EINVAL);
  const bool has_flags = (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) != 0;
  if (has_flags && attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return fail(ENOTSUP);
  return join(handle_of(id), attr->addr, context);
}

int leave_multicast(rdma_cm_id* id, sockaddr* address) {
  IdHandle& handle = handle_of(id);
  const auto group = endpoint_of(address);
  if (!group) return fail(EAFNOSUPPORT);
  auto& all = handle.memberships;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& membership) {
    return membership->group.address == group->address;
  });
  if (found == all.end()) return fail(EADDRNOTAVAIL);
  detach(handle, **found);
  all.erase(found);
  return 0;
}

}  // namespace cm_functions
}  // namespace verbatim::abi
