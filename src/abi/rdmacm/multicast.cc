// SPDX-License-Identifier: Apache-2.0
// rdma_join_multicast(3), rdma_join_multicast_ex(3), rdma_leave_multicast(3).
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"

namespace verbatim::abi {
namespace {

int join(IdHandle& id, const sockaddr* address, void* context,
         wire::JoinState state = wire::JoinState::kFullMember) {
  const auto group = connect::endpoint_of(address);
  if (!group) return fail(EAFNOSUPPORT);
  return complete(id, id.object->join(*group, context, state));
}

}  // namespace

namespace cm_functions {

int join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return join(handle_of(id), address, context);
}

int join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  if (attr == nullptr || attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return fail(ENOTSUP);
  if ((attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_ADDRESS) == 0) return fail(EINVAL);
  const bool has_flags = (attr->comp_mask & RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS) != 0;
  if (has_flags && attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return fail(ENOTSUP);
  const bool only_sends = has_flags && attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  return join(handle_of(id), attr->addr, context,
              only_sends ? wire::JoinState::kSendOnlyFullMember : wire::JoinState::kFullMember);
}

int leave_multicast(rdma_cm_id* id, sockaddr* address) {
  const auto group = connect::endpoint_of(address);
  if (!group) return fail(EAFNOSUPPORT);
  return as_minus_one(object_of(id).leave(*group));
}

}  // namespace cm_functions
}  // namespace verbatim::abi
