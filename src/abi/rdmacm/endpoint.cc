// SPDX-License-Identifier: Apache-2.0
// rdma_create_ep(3), rdma_destroy_ep(3), rdma_get_request(3).
#include "abi/rdmacm/functions.h"
#include "abi/rdmacm/id.h"

namespace verbatim::abi::cm_functions {
namespace {

constexpr int kResolveMs = 2000;  // as librdmacm of rdma-core

int prepare(rdma_cm_id* id, const rdma_addrinfo& info, ibv_pd* pd, ibv_qp_init_attr* init) {
  IdHandle& handle = handle_of(id);
  id->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
  handle.object->options().is_datagram = id->qp_type == IBV_QPT_UD;
  if (init != nullptr) init->qp_type = id->qp_type;
  if ((info.ai_flags & RAI_PASSIVE) != 0) {
    if (bind_addr(id, info.ai_src_addr) != 0) return -1;
    if (pd != nullptr) id->pd = pd;
    if (init != nullptr) handle.endpoint_init = *init;
    return 0;
  }
  if (resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, kResolveMs) != 0) return -1;
  const bool has_route = info.ai_route_len != 0 && info.ai_route != nullptr;
  const int routed = has_route ? set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, info.ai_route,
                                            static_cast<std::size_t>(info.ai_route_len))
                               : resolve_route(id, kResolveMs);
  if (routed != 0) return -1;
  if (init == nullptr) return 0;
  return create_qp(id, pd, init);
}

}  // namespace

int create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd, ibv_qp_init_attr* init) {
  rdma_cm_id* made = nullptr;
  if (create_id(nullptr, &made, nullptr, static_cast<rdma_port_space>(info->ai_port_space)) != 0) {
    return -1;
  }
  if (prepare(made, *info, pd, init) != 0) {
    const int error = errno;
    destroy_ep(made);
    return fail(error);
  }
  *id = made;
  return 0;
}

void destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) destroy_qp(id);
  if (id->srq != nullptr) destroy_srq(id);
  (void)destroy_id(id);
}

int get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  IdHandle& handle = handle_of(listener);
  if (!handle.is_synchronous()) return fail(EINVAL);
  if (listener->event != nullptr) (void)ack_cm_event(listener->event);
  listener->event = nullptr;
  rdma_cm_event* event = nullptr;
  if (get_cm_event(listener->channel, &event) != 0) return -1;
  int error = event->status != 0 ? -event->status : 0;
  if (error == 0 && event->event != RDMA_CM_EVENT_CONNECT_REQUEST) error = EINVAL;
  if (error == 0 && handle.endpoint_init) {
    ibv_qp_init_attr init = *handle.endpoint_init;
    if (create_qp(event->id, listener->pd, &init) != 0) error = errno;
  }
  if (error != 0) {
    listener->event = event;
    return fail(error);
  }
  *id = event->id;
  (*id)->event = event;
  return 0;
}

}  // namespace verbatim::abi::cm_functions
