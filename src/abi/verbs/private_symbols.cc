// SPDX-License-Identifier: Apache-2.0
// Functions that rdma-core's provider libraries import from libibverbs beside the public ones.
// libmlx5 and libefa are linked into perftest, UCX, libfabric and pyverbs and are bound at load
// time, so every name must resolve, in the private version node of every release that a binary may
// be built for. None of them is called for a device of this library: providers act only on devices
// that they have made.
#include <infiniband/verbs.h>

#include <cerrno>

#include "abi/verbs/handles.h"

extern "C" {

/// For functions that return an errno value.
__attribute__((used)) int vb_refuse() {
  errno = EOPNOTSUPP;
  return EOPNOTSUPP;
}
/// For functions that return an object.
__attribute__((used)) void* vb_refuse_object() {
  errno = EOPNOTSUPP;
  return nullptr;
}
/// The one private function that programs call (ibv_devinfo, pyverbs): 1 is RoCEv2.
__attribute__((used)) int vb_query_gid_type(ibv_context* context, uint8_t port, unsigned int index,
                                            unsigned int* type) {
  using verbatim::abi::handle_of;
  if (port != 1 || index >= handle_of(context).adapter->port().gids.size()) {
    errno = EINVAL;
    return -1;
  }
  *type = 1;
  return 0;
}
__attribute__((used)) const char* vb_wr_opcode_str(ibv_wr_opcode opcode) {
  switch (static_cast<int>(opcode)) {
    case IBV_WR_RDMA_WRITE:
      return "RDMA write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "RDMA write with immediate";
    case IBV_WR_SEND:
      return "Send";
    case IBV_WR_SEND_WITH_IMM:
      return "Send with immediate";
    case IBV_WR_RDMA_READ:
      return "RDMA read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "Atomic compare and swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "Atomic fetch and add";
    case IBV_WR_LOCAL_INV:
      return "Local invalidate";
    case IBV_WR_BIND_MW:
      return "Bind memory window";
    case IBV_WR_SEND_WITH_INV:
      return "Send with invalidate";
    case IBV_WR_TSO:
      return "TSO";
    case IBV_WR_ATOMIC_WRITE:
      return "Atomic write";
    default:
      return "unknown";
  }
}
/// For functions that return nothing: registration of a driver, logging, initialisation.
__attribute__((used)) void vb_ignore() {}

}  // extern "C"

// One alias per node: a symbol can carry one version only.
#define VB_PRIVATE_IN(node, name, function)    \
  asm(".globl vb" #node "_" #name              \
      "\n"                                     \
      ".type vb" #node "_" #name               \
      ", %function\n"                          \
      ".set vb" #node "_" #name ", " #function \
      "\n"                                     \
      ".symver vb" #node "_" #name ", " #name "@@IBVERBS_PRIVATE_" #node ", remove\n")
#define VB_PRIVATE_OLD(node, name, function)   \
  asm(".globl vb" #node "_" #name              \
      "\n"                                     \
      ".type vb" #node "_" #name               \
      ", %function\n"                          \
      ".set vb" #node "_" #name ", " #function \
      "\n"                                     \
      ".symver vb" #node "_" #name ", " #name "@IBVERBS_PRIVATE_" #node ", remove\n")
#define VB_PRIVATE(name, function)    \
  VB_PRIVATE_IN(34, name, function);  \
  VB_PRIVATE_OLD(57, name, function); \
  VB_PRIVATE_OLD(59, name, function); \
  VB_PRIVATE_OLD(64, name, function)

VB_PRIVATE(__ioctl_final_num_attrs, vb_refuse);
VB_PRIVATE(__verbs_log, vb_ignore);
VB_PRIVATE(_verbs_init_and_alloc_context, vb_refuse_object);
VB_PRIVATE(execute_ioctl, vb_refuse);
VB_PRIVATE(ibv_cmd_advise_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_alloc_dm, vb_refuse);
VB_PRIVATE(ibv_cmd_alloc_mw, vb_refuse);
VB_PRIVATE(ibv_cmd_alloc_pd, vb_refuse);
VB_PRIVATE(ibv_cmd_attach_mcast, vb_refuse);
VB_PRIVATE(ibv_cmd_close_xrcd, vb_refuse);
VB_PRIVATE(ibv_cmd_create_ah, vb_refuse);
VB_PRIVATE(ibv_cmd_create_counters, vb_refuse);
VB_PRIVATE(ibv_cmd_create_cq, vb_refuse);
VB_PRIVATE(ibv_cmd_create_cq_ex, vb_refuse);
VB_PRIVATE(ibv_cmd_create_flow, vb_refuse);
VB_PRIVATE(ibv_cmd_create_flow_action_esp, vb_refuse);
VB_PRIVATE(ibv_cmd_create_qp, vb_refuse);
VB_PRIVATE(ibv_cmd_create_qp_ex, vb_refuse);
VB_PRIVATE(ibv_cmd_create_qp_ex2, vb_refuse);
VB_PRIVATE(ibv_cmd_create_rwq_ind_table, vb_refuse);
VB_PRIVATE(ibv_cmd_create_srq, vb_refuse);
VB_PRIVATE(ibv_cmd_create_srq_ex, vb_refuse);
VB_PRIVATE(ibv_cmd_create_wq, vb_refuse);
VB_PRIVATE(ibv_cmd_dealloc_mw, vb_refuse);
VB_PRIVATE(ibv_cmd_dealloc_pd, vb_refuse);
VB_PRIVATE(ibv_cmd_dereg_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_ah, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_counters, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_cq, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_flow, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_flow_action, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_qp, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_rwq_ind_table, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_srq, vb_refuse);
VB_PRIVATE(ibv_cmd_destroy_wq, vb_refuse);
VB_PRIVATE(ibv_cmd_detach_mcast, vb_refuse);
VB_PRIVATE(ibv_cmd_free_dm, vb_refuse);
VB_PRIVATE(ibv_cmd_get_context, vb_refuse);
VB_PRIVATE(ibv_cmd_modify_cq, vb_refuse);
VB_PRIVATE(ibv_cmd_modify_flow_action_esp, vb_refuse);
VB_PRIVATE(ibv_cmd_modify_qp, vb_refuse);
VB_PRIVATE(ibv_cmd_modify_qp_ex, vb_refuse);
VB_PRIVATE(ibv_cmd_modify_srq, vb_refuse);
VB_PRIVATE(ibv_cmd_modify_wq, vb_refuse);
VB_PRIVATE(ibv_cmd_open_qp, vb_refuse);
VB_PRIVATE(ibv_cmd_open_xrcd, vb_refuse);
VB_PRIVATE(ibv_cmd_poll_cq, vb_refuse);
VB_PRIVATE(ibv_cmd_post_recv, vb_refuse);
VB_PRIVATE(ibv_cmd_post_send, vb_refuse);
VB_PRIVATE(ibv_cmd_post_srq_recv, vb_refuse);
VB_PRIVATE(ibv_cmd_query_context, vb_refuse);
VB_PRIVATE(ibv_cmd_query_device_any, vb_refuse);
VB_PRIVATE(ibv_cmd_query_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_query_port, vb_refuse);
VB_PRIVATE(ibv_cmd_query_qp, vb_refuse);
VB_PRIVATE(ibv_cmd_query_srq, vb_refuse);
VB_PRIVATE(ibv_cmd_read_counters, vb_refuse);
VB_PRIVATE(ibv_cmd_reg_dm_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_reg_dmabuf_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_reg_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_req_notify_cq, vb_refuse);
VB_PRIVATE(ibv_cmd_rereg_mr, vb_refuse);
VB_PRIVATE(ibv_cmd_resize_cq, vb_refuse);
VB_PRIVATE(ibv_read_ibdev_sysfs_file, vb_refuse);
VB_PRIVATE(verbs_allow_disassociate_destroy, vb_refuse);
VB_PRIVATE(verbs_init_cq, vb_ignore);
VB_PRIVATE(verbs_open_device, vb_refuse_object);
VB_PRIVATE(verbs_register_driver_34, vb_ignore);
VB_PRIVATE(verbs_set_ops, vb_ignore);
VB_PRIVATE(verbs_uninit_context, vb_ignore);
VB_PRIVATE(ibv_query_gid_type, vb_query_gid_type);
VB_PRIVATE(ibv_wr_opcode_str, vb_wr_opcode_str);
// The name of this function changes with the node.
VB_PRIVATE_IN(57, verbs_register_driver_57, vb_ignore);
VB_PRIVATE_IN(59, verbs_register_driver_59, vb_ignore);
VB_PRIVATE_IN(64, verbs_register_driver_64, vb_ignore);
// Drivers of the first releases called this. Only programs that were linked then import it.
asm(".globl vb_ibv_register_driver\n"
    ".type vb_ibv_register_driver, %function\n"
    ".set vb_ibv_register_driver, vb_ignore\n"
    ".symver vb_ibv_register_driver, ibv_register_driver@IBVERBS_1.1, remove\n");
