/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses verbs by hand: each line of its input is a call, or a few that belong
   together, and has one line as its answer. Tests run one on each node of a fabric and say what
   they do (verbs_agents.py). It is compiled against the header of the distribution and knows
   nothing of the adapter.

   It has one queue pair at a time. A call that fails answers "error" and the value of errno. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kReceives = 16, kRoom = 4096, kGrh = 40, kPatienceMs = 10000, kShortPatienceMs = 1000 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq *sends, *receives;
static struct ibv_mr* region;
static struct ibv_qp* qp;
static enum ibv_qp_type type;
static char memory[kReceives + 1][kRoom]; /* the last one is sent from */
static struct ibv_wc last;                /* of a receive */
static char* last_room;

static void answer_error(const char* call, int error) {
  printf("error %s %s\n", call, strerrorname_np(error));
}

/* The next completion, or nothing in this time. */
static int wait_for(struct ibv_cq* cq, struct ibv_wc* wc, int patience_ms) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    if (ibv_poll_cq(cq, 1, wc) == 1) return 1;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
           patience_ms);
  return 0;
}

static void show_port(void) {
  struct ibv_port_attr port;
  const int error = ibv_query_port(context, 1, &port);
  if (error != 0) return answer_error("ibv_query_port", error);
  printf(
      "state=%d max_mtu=%d active_mtu=%d gid_tbl_len=%d port_cap_flags=%u max_msg_sz=%u "
      "bad_pkey_cntr=%u "
      "qkey_viol_cntr=%u pkey_tbl_len=%u lid=%u sm_lid=%u lmc=%u max_vl_num=%u sm_sl=%u "
      "subnet_timeout=%u "
      "init_type_reply=%u active_width=%u active_speed=%u phys_state=%u link_layer=%u flags=%u "
      "port_cap_flags2=%u\n",
      port.state, port.max_mtu, port.active_mtu, port.gid_tbl_len, port.port_cap_flags,
      port.max_msg_sz, port.bad_pkey_cntr, port.qkey_viol_cntr, port.pkey_tbl_len, port.lid,
      port.sm_lid, port.lmc, port.max_vl_num, port.sm_sl, port.subnet_timeout, port.init_type_reply,
      port.active_width, port.active_speed, port.phys_state, port.link_layer, port.flags,
      port.port_cap_flags2);
}

static void show_pkey(int index) {
  __be16 pkey = 0;
  if (ibv_query_pkey(context, 1, index, &pkey) != 0) return answer_error("ibv_query_pkey", errno);
  printf("0x%04x\n", ntohs(pkey));
}

static void show_pkey_index(unsigned pkey) {
  const int index = ibv_get_pkey_index(context, 1, htons((uint16_t)pkey));
  if (index < 0) return answer_error("ibv_get_pkey_index", errno);
  printf("%d\n", index);
}

static const char* text_of(const union ibv_gid* gid, char* text) {
  return inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
}

static void show_gid(int index) {
  union ibv_gid gid;
  char text[INET6_ADDRSTRLEN];
  if (ibv_query_gid(context, 1, index, &gid) != 0) return answer_error("ibv_query_gid", errno);
  printf("%s\n", text_of(&gid, text));
}

static void show_gid_ex(unsigned index) {
  struct ibv_gid_entry entry;
  char text[INET6_ADDRSTRLEN];
  const int error = ibv_query_gid_ex(context, 1, index, &entry, 0);
  if (error != 0) return answer_error("ibv_query_gid_ex", error);
  printf("%s type=%u index=%u port=%u interface=%u\n", text_of(&entry.gid, text), entry.gid_type,
         entry.gid_index, entry.port_num, entry.ndev_ifindex);
}

static void show_gid_table(void) {
  struct ibv_gid_entry entries[64];
  char text[INET6_ADDRSTRLEN];
  const ssize_t count = ibv_query_gid_table(context, entries, 64, 0);
  if (count < 0) return answer_error("ibv_query_gid_table", (int)-count);
  for (ssize_t at = 0; at < count; ++at) printf("%s ", text_of(&entries[at].gid, text));
  printf("(%zd)\n", count);
}

static int post_receive(char* room) {
  struct ibv_sge sge = {.addr = (uintptr_t)room, .length = kRoom, .lkey = region->lkey};
  struct ibv_recv_wr wr = {.wr_id = (uintptr_t)room, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(qp, &wr, &bad);
}

static void make_qp(const char* service, unsigned pkey_index, unsigned qkey) {
  struct ibv_wc wc;
  if (qp != NULL) ibv_destroy_qp(qp);
  while (ibv_poll_cq(receives, 1, &wc) == 1) continue;
  type = strcmp(service, "ud") == 0   ? IBV_QPT_UD
         : strcmp(service, "uc") == 0 ? IBV_QPT_UC
                                      : IBV_QPT_RC;
  struct ibv_qp_init_attr init = {
      .send_cq = sends,
      .recv_cq = receives,
      .qp_type = type,
      .cap = {.max_send_wr = 4, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1}};
  qp = ibv_create_qp(pd, &init);
  if (qp == NULL) return answer_error("ibv_create_qp", errno);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .pkey_index = (uint16_t)pkey_index,
                             .port_num = 1,
                             .qkey = qkey,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  int error = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                (int)(type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  for (int at = 0; error == 0 && at < kReceives; ++at) error = post_receive(memory[at]);
  if (type == IBV_QPT_UD && error == 0) {
    attr.qp_state = IBV_QPS_RTR;
    error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (error == 0) error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }
  if (error != 0) return answer_error("ibv_modify_qp", error);
  printf("%u\n", qp->qp_num);
}

/* "-" is no GID: without a global route header. */
static struct ibv_ah_attr address_of(unsigned lid, unsigned path_bits, unsigned level,
                                     const char* gid) {
  struct ibv_ah_attr address = {.dlid = (uint16_t)lid,
                                .src_path_bits = (uint8_t)path_bits,
                                .sl = (uint8_t)level,
                                .port_num = 1};
  if (strcmp(gid, "-") == 0) return address;
  address.is_global = 1;
  address.grh.hop_limit = 17;
  address.grh.traffic_class = 0x5a;
  address.grh.flow_label = 0x12345;
  inet_pton(AF_INET6, gid, address.grh.dgid.raw);
  return address;
}

static void connect_qp(struct ibv_ah_attr address, unsigned number) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                             .path_mtu = IBV_MTU_1024,
                             .dest_qp_num = number,
                             .rq_psn = 1,
                             .sq_psn = 1,
                             .ah_attr = address,
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = 12,
                             .timeout = 12,
                             .retry_cnt = 3,
                             .rnr_retry = 7,
                             .max_rd_atomic = 1};
  const int is_rc = type == IBV_QPT_RC;
  int error = ibv_modify_qp(
      qp, &attr,
      (int)(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
  attr.qp_state = IBV_QPS_RTS;
  if (error == 0) {
    error = ibv_modify_qp(qp, &attr,
                          (int)(IBV_QP_STATE | IBV_QP_SQ_PSN |
                                (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                             IBV_QP_MAX_QP_RD_ATOMIC
                                       : 0)));
  }
  if (error != 0) return answer_error("ibv_modify_qp", error);
  printf("connected\n");
}

/* Sends a text and waits until that is complete. */
static void send_text(struct ibv_ah* ah, unsigned number, unsigned qkey, const char* text) {
  char* room = memory[kReceives];
  snprintf(room, kRoom, "%s", text);
  struct ibv_sge sge = {
      .addr = (uintptr_t)room, .length = (uint32_t)strlen(room) + 1, .lkey = region->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge,
                           .num_sge = 1,
                           .opcode = IBV_WR_SEND,
                           .send_flags = IBV_SEND_SIGNALED},
                     *bad;
  if (ah != NULL) {
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = number;
    wr.wr.ud.remote_qkey = qkey;
  }
  struct ibv_wc wc;
  const int error = ibv_post_send(qp, &wr, &bad);
  if (error != 0) return answer_error("ibv_post_send", error);
  if (!wait_for(sends, &wc, kPatienceMs)) {
    printf("no completion\n");
  } else {
    printf("%s\n", ibv_wc_status_str(wc.status));
  }
}

static void send_datagram(struct ibv_ah* ah, unsigned number, unsigned qkey, const char* text) {
  if (ah == NULL) return answer_error("ibv_create_ah", errno);
  send_text(ah, number, qkey, text);
  ibv_destroy_ah(ah);
}

static void receive(int patience_ms) {
  if (!wait_for(receives, &last, patience_ms)) {
    printf("nothing\n");
    return;
  }
  last_room = (char*)(uintptr_t)last.wr_id;
  if (last.status != IBV_WC_SUCCESS) {
    printf("status=%s\n", ibv_wc_status_str(last.status));
    return;
  }
  const char* text = last_room + (type == IBV_QPT_UD ? kGrh : 0);
  printf("text=%s slid=%u sl=%u dlid_path_bits=%u grh=%d src_qp=%u pkey_index=%u header=", text,
         last.slid, last.sl, last.dlid_path_bits, (last.wc_flags & IBV_WC_GRH) != 0, last.src_qp,
         last.pkey_index);
  for (int at = 0; type == IBV_QPT_UD && at < kGrh; ++at)
    printf("%02x", (unsigned char)last_room[at]);
  printf("\n");
}

static void show_return_address(void) {
  struct ibv_ah_attr address;
  char text[INET6_ADDRSTRLEN];
  if (ibv_init_ah_from_wc(context, 1, &last, (struct ibv_grh*)last_room, &address) != 0) {
    return answer_error("ibv_init_ah_from_wc", errno);
  }
  printf(
      "dlid=%u sl=%u src_path_bits=%u is_global=%u sgid_index=%u traffic_class=%u flow_label=%u "
      "hop_limit=%u dgid=%s\n",
      address.dlid, address.sl, address.src_path_bits, address.is_global, address.grh.sgid_index,
      address.grh.traffic_class, address.grh.flow_label, address.grh.hop_limit,
      text_of(&address.grh.dgid, text));
}

static void change_group(int joins, const char* gid, unsigned lid) {
  union ibv_gid group;
  inet_pton(AF_INET6, gid, group.raw);
  const int error = joins ? ibv_attach_mcast(qp, &group, (uint16_t)lid)
                          : ibv_detach_mcast(qp, &group, (uint16_t)lid);
  if (error != 0) return answer_error(joins ? "ibv_attach_mcast" : "ibv_detach_mcast", error);
  printf("done\n");
}

static void obey(const char* line) {
  char word[64] = "", text[512] = "", gid[64] = "-";
  unsigned a = 0, b = 0, c = 0, d = 0, e = 0;
  if (strcmp(line, "port") == 0) return show_port();
  if (strcmp(line, "gid_table") == 0) return show_gid_table();
  if (strcmp(line, "return_address") == 0) return show_return_address();
  if (strcmp(line, "receive") == 0) return receive(kPatienceMs);
  if (strcmp(line, "receive_nothing") == 0) return receive(kShortPatienceMs);
  if (sscanf(line, "pkey %i", (int*)&a) == 1) return show_pkey((int)a);
  if (sscanf(line, "pkey_index %i", (int*)&a) == 1) return show_pkey_index(a);
  if (sscanf(line, "gid %i", (int*)&a) == 1) return show_gid((int)a);
  if (sscanf(line, "gid_ex %i", (int*)&a) == 1) return show_gid_ex(a);
  if (sscanf(line, "qp %63s %u %i", word, &a, (int*)&b) == 3) return make_qp(word, a, b);
  if (sscanf(line, "connect %u %u %u %u %63s", &a, &b, &c, &d, gid) == 5) {
    return connect_qp(address_of(a, b, c, gid), d);
  }
  if (sscanf(line, "to %u %u %u %u %i %63s %511s", &a, &b, &c, &d, (int*)&e, gid, text) == 7) {
    struct ibv_ah_attr address = address_of(a, b, c, gid);
    return send_datagram(ibv_create_ah(pd, &address), d, e, text);
  }
  if (sscanf(line, "answer %i %511s", (int*)&a, text) == 2) {
    return send_datagram(ibv_create_ah_from_wc(pd, &last, (struct ibv_grh*)last_room, 1),
                         last.src_qp, a, text);
  }
  if (sscanf(line, "send %511s", text) == 1) return send_text(NULL, 0, 0, text);
  if (sscanf(line, "attach %63s %i", gid, (int*)&a) == 2) return change_group(1, gid, a);
  if (sscanf(line, "detach %63s %i", gid, (int*)&a) == 2) return change_group(0, gid, a);
  printf("what is '%s'?\n", line);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct ibv_device** devices = ibv_get_device_list(NULL);
  context = devices != NULL && devices[0] != NULL ? ibv_open_device(devices[0]) : NULL;
  if (context == NULL) return 1;
  pd = ibv_alloc_pd(context);
  sends = ibv_create_cq(context, 8, NULL, NULL, 0);
  receives = ibv_create_cq(context, kReceives, NULL, NULL, 0);
  region = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (pd == NULL || sends == NULL || receives == NULL || region == NULL) return 1;
  printf("ready\n");
  for (char line[1024]; fgets(line, sizeof line, stdin) != NULL;) {
    line[strcspn(line, "\n")] = 0;
    obey(line);
  }
  return 0;
}
