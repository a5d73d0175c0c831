// SPDX-License-Identifier: Apache-2.0
// rdma_*(3) as programs call them. The implementation is in libibverbs.so.1.
#include "abi/border.h"
#include "abi/rdmacm/library/core.h"

using namespace verbatim::abi;

extern "C" {

VB_EXPORT int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  return call_core<&CmTable::accept>(-1, id, param);
}
VB_EXPORT int rdma_ack_cm_event(rdma_cm_event* event) {
  return call_core<&CmTable::ack_cm_event>(-1, event);
}
VB_EXPORT int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return call_core<&CmTable::bind_addr>(-1, id, address);
}
VB_EXPORT int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  return call_core<&CmTable::connect>(-1, id, param);
}
VB_EXPORT int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                             ibv_qp_init_attr* init) {
  return call_core<&CmTable::create_ep>(-1, id, info, pd, init);
}
VB_EXPORT rdma_event_channel* rdma_create_event_channel() {
  return call_core<&CmTable::create_event_channel>(nullptr);
}
VB_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                             rdma_port_space space) {
  return call_core<&CmTable::create_id>(-1, channel, id, context, space);
}
VB_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* init) {
  return call_core<&CmTable::create_qp>(-1, id, pd, init);
}
VB_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* init) {
  return call_core<&CmTable::create_qp_ex>(-1, id, init);
}
VB_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* init) {
  return call_core<&CmTable::create_srq>(-1, id, pd, init);
}
VB_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* init) {
  return call_core<&CmTable::create_srq_ex>(-1, id, init);
}
VB_EXPORT void rdma_destroy_ep(rdma_cm_id* id) { tell_core<&CmTable::destroy_ep>(id); }
VB_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
  tell_core<&CmTable::destroy_event_channel>(channel);
}
VB_EXPORT int rdma_destroy_id(rdma_cm_id* id) { return call_core<&CmTable::destroy_id>(-1, id); }
VB_EXPORT void rdma_destroy_qp(rdma_cm_id* id) { tell_core<&CmTable::destroy_qp>(id); }
VB_EXPORT void rdma_destroy_srq(rdma_cm_id* id) { tell_core<&CmTable::destroy_srq>(id); }
VB_EXPORT int rdma_disconnect(rdma_cm_id* id) { return call_core<&CmTable::disconnect>(-1, id); }
VB_EXPORT int rdma_establish(rdma_cm_id* id) { return call_core<&CmTable::establish>(-1, id); }
VB_EXPORT void rdma_free_devices(ibv_context** list) { tell_core<&CmTable::free_devices>(list); }
VB_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* info) { tell_core<&CmTable::freeaddrinfo>(info); }
VB_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return call_core<&CmTable::get_cm_event>(-1, channel, event);
}
VB_EXPORT ibv_context** rdma_get_devices(int* count) {
  return call_core<&CmTable::get_devices>(nullptr, count);
}
VB_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) {
  return call_core<&CmTable::get_dst_port>(0, id);
}
VB_EXPORT int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  return call_core<&CmTable::get_remote_ece>(-1, id, ece);
}
VB_EXPORT int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  return call_core<&CmTable::get_request>(-1, listener, id);
}
VB_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) {
  return call_core<&CmTable::get_src_port>(0, id);
}
VB_EXPORT int rdma_getaddrinfo(const char* node, const char* service, const rdma_addrinfo* hints,
                               rdma_addrinfo** info) {
  return call_core<&CmTable::getaddrinfo>(-1, node, service, hints, info);
}
VB_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  return call_core<&CmTable::init_qp_attr>(-1, id, attr, mask);
}
VB_EXPORT int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return call_core<&CmTable::join_multicast>(-1, id, address, context);
}
VB_EXPORT int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr, void* context) {
  return call_core<&CmTable::join_multicast_ex>(-1, id, attr, context);
}
VB_EXPORT int rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  return call_core<&CmTable::leave_multicast>(-1, id, address);
}
VB_EXPORT int rdma_listen(rdma_cm_id* id, int backlog) {
  return call_core<&CmTable::listen>(-1, id, backlog);
}
VB_EXPORT int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return call_core<&CmTable::migrate_id>(-1, id, channel);
}
VB_EXPORT int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  return call_core<&CmTable::notify>(-1, id, event);
}
VB_EXPORT int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) {
  return call_core<&CmTable::query_addrinfo>(-1, id, info);
}
VB_EXPORT int rdma_reject(rdma_cm_id* id, const void* data, uint8_t octets) {
  return call_core<&CmTable::reject>(-1, id, data, octets);
}
VB_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* data, uint8_t octets) {
  return call_core<&CmTable::reject_ece>(-1, id, data, octets);
}
VB_EXPORT int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                                int timeout_ms) {
  return call_core<&CmTable::resolve_addr>(-1, id, source, destination, timeout_ms);
}
VB_EXPORT int rdma_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                                    const rdma_addrinfo* hints) {
  return call_core<&CmTable::resolve_addrinfo>(-1, id, node, service, hints);
}
VB_EXPORT int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) {
  return call_core<&CmTable::resolve_route>(-1, id, timeout_ms);
}
VB_EXPORT int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  return call_core<&CmTable::set_local_ece>(-1, id, ece);
}
VB_EXPORT int rdma_set_option(rdma_cm_id* id, int level, int option, void* value, size_t octets) {
  return call_core<&CmTable::set_option>(-1, id, level, option, value, octets);
}
VB_EXPORT int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status,
                                  uint64_t arg) {
  return call_core<&CmTable::write_cm_event>(-1, id, event, status, arg);
}

}  // extern "C"
