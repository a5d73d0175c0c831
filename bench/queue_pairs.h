// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "question.h"

namespace verbatim::bench {

inline constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// The first device that there is.
inline ibv_context* open_device() {
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) stop("there is no device");
  ibv_context* const context = ibv_open_device(devices[0]);
  if (context == nullptr) stop("no adapter");
  return context;
}

inline ibv_gid gid_of(ibv_context* context, std::uint8_t index) {
  ibv_gid gid{};
  if (ibv_query_gid(context, 1, index, &gid) != 0) stop("the device has no such GID");
  return gid;
}

inline void modify(ibv_qp* pair, ibv_qp_attr wanted, int which) {
  if (ibv_modify_qp(pair, &wanted, which) != 0) stop("ibv_modify_qp failed");
}

/// A reliable queue pair in INIT, whose peer may write.
inline ibv_qp* make_queue_pair(ibv_pd* domain, ibv_cq* completions, std::uint32_t depth) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = depth,
                .max_recv_wr = depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  ibv_qp* const pair = ibv_create_qp(domain, &wanted);
  if (pair == nullptr) stop("ibv_create_qp failed");
  ibv_qp_attr first{};
  first.qp_state = IBV_QPS_INIT;
  first.port_num = 1;
  first.qp_access_flags = kAccess;
  modify(pair, first, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return pair;
}

/// Where a queue pair's peer is, and from which address it is reached.
struct RemoteEnd {
  ibv_gid gid{};
  std::uint32_t number = 0;
  std::uint8_t gid_index = 0;
};

/// From INIT to RTS.
inline void connect(ibv_qp* pair, const RemoteEnd& to) {
  ibv_qp_attr wanted{};
  wanted.qp_state = IBV_QPS_RTR;
  wanted.path_mtu = IBV_MTU_1024;
  wanted.dest_qp_num = to.number;
  wanted.max_dest_rd_atomic = 1;
  wanted.min_rnr_timer = 12;
  wanted.ah_attr.is_global = 1;
  wanted.ah_attr.port_num = 1;
  wanted.ah_attr.grh.dgid = to.gid;
  wanted.ah_attr.grh.sgid_index = to.gid_index;
  wanted.ah_attr.grh.hop_limit = 64;
  modify(pair, wanted,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  wanted.qp_state = IBV_QPS_RTS;
  wanted.timeout = 14;
  wanted.retry_cnt = 7;
  wanted.rnr_retry = 7;
  wanted.max_rd_atomic = 1;
  modify(pair, wanted,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC);
}

/// A domain whose regions have a peer on this host: two queue pairs that are each other's.
inline ibv_pd* open_domain_with_peer(std::uint8_t gid_index) {
  ibv_context* const context = open_device();
  ibv_pd* const domain = ibv_alloc_pd(context);
  ibv_cq* const completions = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  if (domain == nullptr || completions == nullptr) stop("no domain, or no completion queue");
  const ibv_gid gid = gid_of(context, gid_index);
  ibv_qp* const pairs[2] = {make_queue_pair(domain, completions, 1),
                            make_queue_pair(domain, completions, 1)};
  for (int i = 0; i < 2; ++i) {
    connect(pairs[i], {.gid = gid, .number = pairs[1 - i]->qp_num, .gid_index = gid_index});
  }
  return domain;
}

}  // namespace verbatim::bench
