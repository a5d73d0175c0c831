/* SPDX-License-Identifier: Apache-2.0 */
/* The layout that programs were compiled with (rdma-core v44), and a C program's use of every kind
   of inline function. Mutexes differ in size between processors, and what lies behind one differs
   by as much: PAST_MUTEX takes the offset that it has on aarch64. */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SIZE(type, octets) _Static_assert(sizeof(struct type) == (octets), #type)
/* Later releases of rdma-core have added members at the end. */
#define AT_LEAST(type, octets) _Static_assert(sizeof(struct type) >= (octets), #type)
#define AT(type, field, offset) \
  _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define BEFORE(field, distance)                                                          \
  _Static_assert(                                                                        \
      offsetof(struct verbs_context, context) - offsetof(struct verbs_context, field) == \
          (distance),                                                                    \
      "verbs_context." #field)

#if defined(__aarch64__)
#define MUTEX 48
#elif defined(__x86_64__)
#define MUTEX 40
#else
#error "how large is a mutex here?"
#endif
#define PAST_MUTEX(offset) ((offset)-48 + MUTEX)
_Static_assert(sizeof(pthread_mutex_t) == MUTEX, "pthread_mutex_t");

AT(ibv_context, device, 0);
AT(ibv_context, ops, 8);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_context, num_comp_vectors, 272);
AT(ibv_context, mutex, 280);
SIZE(ibv_context_ops, 256);
AT(ibv_context_ops, _compat_query_device, 0);
AT(ibv_context_ops, _compat_query_port, 8);
AT(ibv_context_ops, alloc_mw, 56);
AT(ibv_context_ops, bind_mw, 64);
AT(ibv_context_ops, dealloc_mw, 72);
AT(ibv_context_ops, poll_cq, 88);
AT(ibv_context_ops, req_notify_cq, 96);
AT(ibv_context_ops, post_srq_recv, 160);
AT(ibv_context_ops, post_send, 200);
AT(ibv_context_ops, post_recv, 208);
BEFORE(sz, 8);
BEFORE(_ABI_placeholder3, 16);
BEFORE(close_xrcd, 24);
BEFORE(open_xrcd, 32);
BEFORE(create_srq_ex, 40);
BEFORE(get_srq_num, 48);
BEFORE(create_qp_ex, 56);
BEFORE(open_qp, 64);
BEFORE(ABI_placeholder1, 72);
BEFORE(ibv_create_flow, 80);
BEFORE(ABI_placeholder2, 88);
BEFORE(ibv_destroy_flow, 96);
BEFORE(query_device_ex, 104);
BEFORE(priv, 112);
BEFORE(create_cq_ex, 120);
BEFORE(query_rt_values, 128);
BEFORE(create_wq, 136);
BEFORE(modify_wq, 144);
BEFORE(destroy_wq, 152);
BEFORE(create_rwq_ind_table, 160);
BEFORE(destroy_rwq_ind_table, 168);
BEFORE(post_srq_ops, 176);
BEFORE(modify_cq, 184);
BEFORE(alloc_td, 192);
BEFORE(dealloc_td, 200);
BEFORE(alloc_parent_domain, 208);
BEFORE(modify_qp_rate_limit, 216);
BEFORE(create_flow_action_esp, 224);
BEFORE(destroy_flow_action, 232);
BEFORE(modify_flow_action_esp, 240);
BEFORE(free_dm, 248);
BEFORE(alloc_dm, 256);
BEFORE(reg_dm_mr, 264);
BEFORE(destroy_counters, 272);
BEFORE(create_counters, 280);
BEFORE(attach_counters_point_flow, 288);
BEFORE(read_counters, 296);
BEFORE(alloc_null_mr, 304);
BEFORE(advise_mr, 312);
BEFORE(query_port, 320);
SIZE(ibv_device, 664);
AT(ibv_device, _ops, 0);
AT(ibv_device, node_type, 16);
AT(ibv_device, transport_type, 20);
AT(ibv_device, name, 24);
AT(ibv_device, dev_name, 88);
AT(ibv_device, dev_path, 152);
AT(ibv_device, ibdev_path, 408);
SIZE(ibv_pd, 16);
AT(ibv_pd, context, 0);
AT(ibv_pd, handle, 8);
SIZE(ibv_mr, 48);
AT(ibv_mr, context, 0);
AT(ibv_mr, pd, 8);
AT(ibv_mr, addr, 16);
AT(ibv_mr, length, 24);
AT(ibv_mr, handle, 32);
AT(ibv_mr, lkey, 36);
AT(ibv_mr, rkey, 40);
SIZE(ibv_mw, 32);
AT(ibv_mw, rkey, 16);
AT(ibv_mw, handle, 20);
AT(ibv_mw, type, 24);
AT(ibv_cq, context, 0);
AT(ibv_cq, channel, 8);
AT(ibv_cq, cq_context, 16);
AT(ibv_cq, handle, 24);
AT(ibv_cq, cqe, 28);
AT(ibv_cq, mutex, 32);
AT(ibv_qp, context, 0);
AT(ibv_qp, qp_context, 8);
AT(ibv_qp, pd, 16);
AT(ibv_qp, send_cq, 24);
AT(ibv_qp, recv_cq, 32);
AT(ibv_qp, srq, 40);
AT(ibv_qp, handle, 48);
AT(ibv_qp, qp_num, 52);
AT(ibv_qp, state, 56);
AT(ibv_qp, qp_type, 60);
AT(ibv_qp, mutex, 64);
AT(ibv_srq, context, 0);
AT(ibv_srq, srq_context, 8);
AT(ibv_srq, pd, 16);
AT(ibv_srq, handle, 24);
AT(ibv_srq, mutex, 32);
SIZE(ibv_ah, 24);
AT(ibv_ah, context, 0);
AT(ibv_ah, pd, 8);
AT(ibv_ah, handle, 16);
SIZE(ibv_comp_channel, 16);
AT(ibv_comp_channel, context, 0);
AT(ibv_comp_channel, fd, 8);
AT(ibv_comp_channel, refcnt, 12);
SIZE(ibv_xrcd, 8);
SIZE(ibv_dm, 32);
AT(ibv_dm, memcpy_to_dm, 8);
AT(ibv_dm, memcpy_from_dm, 16);
SIZE(ibv_wc, 48);
SIZE(ibv_send_wr, 128);
SIZE(ibv_recv_wr, 32);
SIZE(ibv_sge, 16);
SIZE(ibv_qp_attr, 144);
SIZE(ibv_qp_init_attr, 64);
SIZE(ibv_qp_init_attr_ex, 136);
SIZE(ibv_srq_init_attr_ex, 64);
SIZE(ibv_cq_init_attr_ex, 56);
SIZE(ibv_ah_attr, 32);
SIZE(ibv_device_attr, 232);
SIZE(ibv_device_attr_ex, 400);
AT_LEAST(ibv_port_attr, 52);
SIZE(ibv_gid_entry, 32);
SIZE(ibv_async_event, 16);
SIZE(ibv_td, 8);
SIZE(ibv_counters, 8);
AT(ibv_port_attr, link_layer, 46);
AT(ibv_port_attr, flags, 47);
AT(ibv_port_attr, port_cap_flags2, 48);
AT(ibv_gid_entry, gid, 0);
AT(ibv_gid_entry, gid_index, 16);
AT(ibv_gid_entry, port_num, 20);
AT(ibv_gid_entry, gid_type, 24);
AT(ibv_gid_entry, ndev_ifindex, 28);

SIZE(rdma_cm_id, 416);
AT(rdma_cm_id, verbs, 0);
AT(rdma_cm_id, channel, 8);
AT(rdma_cm_id, context, 16);
AT(rdma_cm_id, qp, 24);
AT(rdma_cm_id, route, 32);
AT(rdma_cm_id, ps, 344);
AT(rdma_cm_id, port_num, 348);
AT(rdma_cm_id, event, 352);
AT(rdma_cm_id, send_cq_channel, 360);
AT(rdma_cm_id, send_cq, 368);
AT(rdma_cm_id, recv_cq_channel, 376);
AT(rdma_cm_id, recv_cq, 384);
AT(rdma_cm_id, srq, 392);
AT(rdma_cm_id, pd, 400);
AT(rdma_cm_id, qp_type, 408);
SIZE(rdma_event_channel, 4);
SIZE(rdma_cm_event, 80);
SIZE(rdma_conn_param, 24);
SIZE(rdma_ud_param, 56);
SIZE(rdma_addrinfo, 96);
SIZE(rdma_route, 312);
SIZE(rdma_addr, 296);

SIZE(ibv_context, PAST_MUTEX(336));
AT(ibv_context, abi_compat, PAST_MUTEX(328));
SIZE(verbs_context, PAST_MUTEX(656));
SIZE(ibv_cq, PAST_MUTEX(136));
AT(ibv_cq, cond, PAST_MUTEX(80));
AT(ibv_cq, comp_events_completed, PAST_MUTEX(128));
AT(ibv_cq, async_events_completed, PAST_MUTEX(132));
SIZE(ibv_cq_ex, PAST_MUTEX(296));
AT(ibv_cq_ex, comp_mask, PAST_MUTEX(136));
AT(ibv_cq_ex, status, PAST_MUTEX(140));
AT(ibv_cq_ex, wr_id, PAST_MUTEX(144));
AT(ibv_cq_ex, start_poll, PAST_MUTEX(152));
AT(ibv_cq_ex, next_poll, PAST_MUTEX(160));
AT(ibv_cq_ex, end_poll, PAST_MUTEX(168));
AT(ibv_cq_ex, read_opcode, PAST_MUTEX(176));
AT(ibv_cq_ex, read_vendor_err, PAST_MUTEX(184));
AT(ibv_cq_ex, read_byte_len, PAST_MUTEX(192));
AT(ibv_cq_ex, read_imm_data, PAST_MUTEX(200));
AT(ibv_cq_ex, read_qp_num, PAST_MUTEX(208));
AT(ibv_cq_ex, read_src_qp, PAST_MUTEX(216));
AT(ibv_cq_ex, read_wc_flags, PAST_MUTEX(224));
AT(ibv_cq_ex, read_slid, PAST_MUTEX(232));
AT(ibv_cq_ex, read_sl, PAST_MUTEX(240));
AT(ibv_cq_ex, read_dlid_path_bits, PAST_MUTEX(248));
AT(ibv_cq_ex, read_completion_ts, PAST_MUTEX(256));
AT(ibv_cq_ex, read_cvlan, PAST_MUTEX(264));
AT(ibv_cq_ex, read_flow_tag, PAST_MUTEX(272));
AT(ibv_cq_ex, read_tm_info, PAST_MUTEX(280));
AT(ibv_cq_ex, read_completion_wallclock_ns, PAST_MUTEX(288));
SIZE(ibv_qp, PAST_MUTEX(168));
AT(ibv_qp, cond, PAST_MUTEX(112));
AT(ibv_qp, events_completed, PAST_MUTEX(160));
AT_LEAST(ibv_qp_ex, PAST_MUTEX(360));
AT(ibv_qp_ex, comp_mask, PAST_MUTEX(168));
AT(ibv_qp_ex, wr_id, PAST_MUTEX(176));
AT(ibv_qp_ex, wr_flags, PAST_MUTEX(184));
AT(ibv_qp_ex, wr_atomic_cmp_swp, PAST_MUTEX(192));
AT(ibv_qp_ex, wr_start, PAST_MUTEX(328));
AT(ibv_qp_ex, wr_complete, PAST_MUTEX(336));
AT(ibv_qp_ex, wr_abort, PAST_MUTEX(344));
AT(ibv_qp_ex, wr_atomic_write, PAST_MUTEX(352));
SIZE(ibv_srq, PAST_MUTEX(136));
AT(ibv_srq, cond, PAST_MUTEX(80));
AT(ibv_srq, events_completed, PAST_MUTEX(128));
SIZE(ibv_wq, PAST_MUTEX(160));

/* Compiled and linked, not run against a peer: each inline goes through another table. */
int main(void) {
  int count = 0;
  struct ibv_device** list = ibv_get_device_list(&count);
  if (list == NULL || count < 1) {
    printf("skipped: no device\n");
    return 77;
  }
  struct ibv_context* context = ibv_open_device(list[0]);
  ibv_free_device_list(list);
  if (context == NULL) {
    printf("skipped: the device cannot be opened\n");
    return 77;
  }
  struct verbs_context* verbs = verbs_get_ctx(context);
  if (verbs == NULL || verbs->sz != sizeof(struct verbs_context))
    return printf("no verbs_context\n"), 1;
  struct ibv_port_attr port[2];
  memset(port, 0x5a, sizeof port);
  if (ibv_query_port(context, 1, &port[0]) != 0) return printf("ibv_query_port\n"), 1;
  if (port[0].link_layer != IBV_LINK_LAYER_ETHERNET) return printf("link layer\n"), 1;
  if (*(unsigned char*)&port[1] != 0x5a) return printf("it wrote beyond the struct\n"), 1;
  unsigned char old[64]; /* callers of the exported function have a struct of 48 octets */
  memset(old, 0x5a, sizeof old);
  if ((ibv_query_port)(context, 1, (struct _compat_ibv_port_attr*)old) != 0 || old[48] != 0x5a) {
    return printf("the old ibv_query_port\n"), 1;
  }
  struct ibv_device_attr_ex extended;
  if (ibv_query_device_ex(context, NULL, &extended) != 0) return printf("ibv_query_device_ex\n"), 1;
  struct ibv_gid_entry entry;
  if (ibv_query_gid_ex(context, 1, 0, &entry, 0) != 0) return printf("ibv_query_gid_ex\n"), 1;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return printf("gid type\n"), 1;
  struct ibv_pd* pd = ibv_alloc_pd(context);
  static char memory[4096];
  const int access = IBV_ACCESS_LOCAL_WRITE;
  struct ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, access);
  struct ibv_mr* relaxed = ibv_reg_mr(
      pd, memory, sizeof memory, (unsigned)access | (count > 0 ? IBV_ACCESS_RELAXED_ORDERING : 0));
  if (mr == NULL || relaxed == NULL) return printf("ibv_reg_mr\n"), 1;
  struct ibv_cq_init_attr_ex attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.cqe = 16;
  struct ibv_cq_ex* cq = ibv_create_cq_ex(context, &attributes);
  struct ibv_poll_cq_attr poll = {.comp_mask = 0};
  if (cq == NULL || ibv_start_poll(cq, &poll) != ENOENT) return printf("ibv_create_cq_ex\n"), 1;
  struct ibv_wc wc;
  if (ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc) != 0) return printf("ibv_poll_cq\n"), 1;
  if (ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0) != 0) return printf("ibv_req_notify_cq\n"), 1;
  if (ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) != 0 || ibv_dereg_mr(relaxed) != 0 ||
      ibv_dereg_mr(mr) != 0 || ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0) {
    return printf("taking it down\n"), 1;
  }
  return 0;
}
