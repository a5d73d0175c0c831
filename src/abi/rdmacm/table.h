// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cstdint>

#include "abi/rdmacm/newer.h"

/// The functions of rdma_cma.h and rdma_verbs.h without their prefix.
#define VB_CM_FUNCTIONS(X) \
  X(accept)                \
  X(ack_cm_event)          \
  X(bind_addr)             \
  X(connect)               \
  X(create_ep)             \
  X(create_event_channel)  \
  X(create_id)             \
  X(create_qp)             \
  X(create_qp_ex)          \
  X(create_srq)            \
  X(create_srq_ex)         \
  X(destroy_ep)            \
  X(destroy_event_channel) \
  X(destroy_id)            \
  X(destroy_qp)            \
  X(destroy_srq)           \
  X(disconnect)            \
  X(establish)             \
  X(free_devices)          \
  X(freeaddrinfo)          \
  X(get_cm_event)          \
  X(get_devices)           \
  X(get_dst_port)          \
  X(get_remote_ece)        \
  X(get_request)           \
  X(get_src_port)          \
  X(getaddrinfo)           \
  X(init_qp_attr)          \
  X(join_multicast)        \
  X(join_multicast_ex)     \
  X(leave_multicast)       \
  X(listen)                \
  X(migrate_id)            \
  X(notify)                \
  X(query_addrinfo)        \
  X(reject)                \
  X(reject_ece)            \
  X(resolve_addr)          \
  X(resolve_addrinfo)      \
  X(resolve_route)         \
  X(set_local_ece)         \
  X(set_option)            \
  X(write_cm_event)

namespace verbatim::abi {

/// The functions that librdmacm.so.1 calls in libibverbs.so.1, where devices and connections exist
/// once per process. Both libraries are built together; `octets` detects a pair that was not.
struct CmTable {
  std::uint64_t octets = sizeof(CmTable);
#define VB_CM_MEMBER(name) decltype(&::rdma_##name) name = nullptr;
  VB_CM_FUNCTIONS(VB_CM_MEMBER)
#undef VB_CM_MEMBER
};

/// The one symbol of libibverbs.so.1 that is for librdmacm.so.1 alone, and its version node. The
/// function returns a CmTable.
inline constexpr const char* kCmTableSymbol = "verbatim_cm_table";
inline constexpr const char* kCmTableVersion = "VERBATIM_1";

}  // namespace verbatim::abi
