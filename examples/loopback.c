/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest whole program over the verbs: two queue pairs of one process, connected to each
   other, and one RDMA WRITE between two buffers. Nothing in it knows Verbatim.

     cc -o loopback loopback.c -libverbs
     verbatim run ./loopback */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OCTETS 4096

static void* must(void* object, const char* what) {
  if (object == NULL) {
    perror(what);
    exit(1);
  }
  return object;
}

static void succeed(int error, const char* what) {
  if (error != 0) {
    fprintf(stderr, "%s: %s\n", what, strerror(error));
    exit(1);
  }
}

/* The first GID that has an IPv4 address, from which packets can be sent everywhere. */
static int usable_gid(struct ibv_context* device, union ibv_gid* gid) {
  for (int index = 0; ibv_query_gid(device, 1, index, gid) == 0; ++index) {
    if (gid->raw[10] == 0xff && gid->raw[11] == 0xff) return index;
  }
  return ibv_query_gid(device, 1, 0, gid);
}

/* From RESET to RTS, connected to the queue pair with this number on the same port. */
static void join(struct ibv_qp* qp, uint32_t peer, int gid_index, const union ibv_gid* gid) {
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  succeed(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                       IBV_QP_ACCESS_FLAGS),
          "INIT");
  struct ibv_qp_attr receive = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .dest_qp_num = peer,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = 12,
      .ah_attr = {.is_global = 1,
                  .grh = {.dgid = *gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64},
                  .port_num = 1}};
  succeed(ibv_modify_qp(qp, &receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "RTR");
  struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS,
                             .timeout = 14,
                             .retry_cnt = 7,
                             .rnr_retry = 7,
                             .max_rd_atomic = 1};
  succeed(ibv_modify_qp(qp, &send, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
          "RTS");
}

int main(void) {
  int count = 0;
  struct ibv_device** list = must(ibv_get_device_list(&count), "ibv_get_device_list");
  if (count == 0) {
    fputs("there is no RDMA device; start this with `verbatim run`\n", stderr);
    return 1;
  }
  struct ibv_context* device = must(ibv_open_device(list[0]), "ibv_open_device");
  struct ibv_pd* pd = must(ibv_alloc_pd(device), "ibv_alloc_pd");
  struct ibv_cq* cq = must(ibv_create_cq(device, 16, NULL, NULL, 0), "ibv_create_cq");
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  struct ibv_qp* a = must(ibv_create_qp(pd, &wanted), "ibv_create_qp");
  struct ibv_qp* b = must(ibv_create_qp(pd, &wanted), "ibv_create_qp");
  union ibv_gid gid;
  const int gid_index = usable_gid(device, &gid);
  join(a, b->qp_num, gid_index, &gid);
  join(b, a->qp_num, gid_index, &gid);

  char* from = must(calloc(1, OCTETS), "calloc");
  char* to = must(calloc(1, OCTETS), "calloc");
  strcpy(from, "written by an RDMA adapter made of software");
  struct ibv_mr* source = must(ibv_reg_mr(pd, from, OCTETS, 0), "ibv_reg_mr");
  struct ibv_mr* target =
      must(ibv_reg_mr(pd, to, OCTETS, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
           "ibv_reg_mr");

  struct ibv_sge sge = {.addr = (uintptr_t)from, .length = OCTETS, .lkey = source->lkey};
  struct ibv_send_wr write = {.sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_WRITE,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = {.remote_addr = (uintptr_t)to, .rkey = target->rkey}};
  struct ibv_send_wr* refused = NULL;
  succeed(ibv_post_send(a, &write, &refused), "ibv_post_send");
  struct ibv_wc done;
  int polled = 0;
  while (polled == 0) polled = ibv_poll_cq(cq, 1, &done);
  if (polled < 0 || done.status != IBV_WC_SUCCESS) {
    fprintf(stderr, "the WRITE failed: %s\n", ibv_wc_status_str(done.status));
    return 1;
  }
  printf("%s: %s\n", ibv_get_device_name(list[0]), to);

  ibv_dereg_mr(target);
  ibv_dereg_mr(source);
  ibv_destroy_qp(b);
  ibv_destroy_qp(a);
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(device);
  ibv_free_device_list(list);
  free(to);
  free(from);
  return 0;
}
