// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace verbatim::testing {

/// What one end tells the other.
struct EndNotes {
  std::atomic<bool> is_ready{false};
  std::uint32_t number = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
};

/// One end of a reliable connection, with a buffer that the other may use as it likes.
struct LoneEnd {
  static constexpr std::uint32_t kOctets = 64 * 1024;
  static constexpr auto kPatience = std::chrono::seconds(30);

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::byte* buffer = nullptr;

  bool open() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) return false;
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context == nullptr) return false;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    buffer = static_cast<std::byte*>(std::aligned_alloc(4096, kOctets));
    std::memset(buffer, 0, kOctets);
    constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC;
    mr = ibv_reg_mr(pd, buffer, kOctets, kAll);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAll;
    return mr != nullptr && qp != nullptr &&
           ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
  }

  void tell(EndNotes& end) const {
    end.number = qp->qp_num;
    end.rkey = mr->rkey;
    end.address = reinterpret_cast<std::uintptr_t>(buffer);
    end.is_ready = true;
  }

  bool connect(std::uint32_t to) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    if (ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) != 0) return false;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 19;  // 2 s: a peer that is stopped is given time
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  bool receive() {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(buffer) + kOctets / 2,
                .length = kOctets / 2,
                .lkey = mr->lkey};
    ibv_recv_wr request{};
    request.wr_id = 7;
    request.sg_list = &sge;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &request, &bad) == 0;
  }

  /// Posts `octets` of the buffer's beginning and waits; the status, or -1 when nothing came.
  int run(ibv_wr_opcode opcode, const EndNotes& to, std::uint32_t octets) {
    if (!post(opcode, to, octets)) return -2;
    ibv_wc wc{};
    return collect(wc) ? static_cast<int>(wc.status) : -1;
  }

  bool post(ibv_wr_opcode opcode, const EndNotes& to, std::uint32_t octets) {
    ibv_sge sge{
        .addr = reinterpret_cast<std::uintptr_t>(buffer), .length = octets, .lkey = mr->lkey};
    ibv_send_wr request{};
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &sge;
    request.num_sge = 1;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = to.address, .compare_add = 1, .swap = 0, .rkey = to.rkey};
    } else {
      request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &request, &bad) == 0;
  }

  bool collect(ibv_wc& wc) const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      if (ibv_poll_cq(cq, 1, &wc) == 1) return true;
    }
    return false;
  }
};

}  // namespace verbatim::testing
