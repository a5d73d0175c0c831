// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "qp_capacity.h"

namespace verbatim::testing {

/// Longer than any wait of these tests, also on a busy machine.
inline constexpr auto kEndPatience = std::chrono::seconds(60);

/// What an end of a connection tells the other, in shared memory.
struct EndNotes {
  std::atomic<std::uint32_t> ready{0};  // the round that the rest is about
  std::uint32_t number = 0;
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
};

/// Memory that children share with their parent.
template <typename T>
T* share_with_children() {
  void* at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : new (at) T;
}

/// Whether a condition comes true before patience ends.
template <typename Condition>
bool await(Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + kEndPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::usleep(50);
  }
  return true;
}

/// One end of a reliable connection in a process of its own, with a buffer that the other may read
/// and write.
struct End {
  static constexpr std::uint32_t kOctets = 128 * 1024;
  static constexpr std::uint32_t kDepth = 16;
  static constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  struct Timing {
    std::uint8_t timeout = 14;  // 67 ms
    std::uint8_t retry_count = 7;
    std::uint8_t rnr_retry = 7;
  };

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_srq* srq = nullptr;
  ibv_mr* mr = nullptr;
  std::byte* buffer = nullptr;

  bool open() {
    ibv_device** list = ibv_get_device_list(nullptr);
    if (list == nullptr || list[0] == nullptr) return false;
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    if (context == nullptr) return false;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 512, nullptr, nullptr, 0);
    buffer = static_cast<std::byte*>(std::aligned_alloc(4096, kOctets));
    std::memset(buffer, 0, kOctets);
    return pd != nullptr && cq != nullptr && register_buffer();
  }
  bool register_buffer() {
    mr = ibv_reg_mr(pd, buffer, kOctets, kAllAccess);
    return mr != nullptr;
  }
  bool make_srq() {
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = kDepth, .max_sge = 1, .srq_limit = 0};
    srq = ibv_create_srq(pd, &init);
    return srq != nullptr;
  }

  /// A queue pair in INIT.
  bool make_qp(ibv_qp** made, bool is_shared = false) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.srq = is_shared ? srq : nullptr;
    init.cap = qp_capacity(kDepth, kDepth);
    init.qp_type = IBV_QPT_RC;
    *made = ibv_create_qp(pd, &init);
    return *made != nullptr && to_init(*made);
  }
  static bool to_init(ibv_qp* of) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess;
    return ibv_modify_qp(of, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
  }
  static bool to_state(ibv_qp* of, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(of, &attr, IBV_QP_STATE) == 0;
  }

  void tell(EndNotes& notes, std::uint32_t round) const {
    notes.number = qp->qp_num;
    notes.rkey = mr->rkey;
    notes.address = reinterpret_cast<std::uintptr_t>(buffer);
    notes.ready = round;
  }

  /// Finds the GID of an IPv4 address of this host, which both ends use. The first GID of the
  /// loopback interface is an address that the interface does not have, so no packet comes from it.
  bool find_gid(ibv_global_route& route) const {
    ibv_gid_entry entry{};
    for (std::uint32_t index = 0; ibv_query_gid_ex(context, 1, index, &entry, 0) == 0; ++index) {
      const bool is_ipv4 = entry.gid.raw[10] == 0xff && entry.gid.raw[11] == 0xff;
      if (!is_ipv4) continue;
      route.dgid = entry.gid;
      route.sgid_index = static_cast<std::uint8_t>(index);
      return true;
    }
    return false;
  }

  bool connect(ibv_qp* of, std::uint32_t to, const Timing& timing) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = to;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    if (!find_gid(attr.ah_attr.grh)) return false;
    if (ibv_modify_qp(of, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timing.timeout;
    attr.retry_cnt = timing.retry_count;
    attr.rnr_retry = timing.rnr_retry;
    attr.max_rd_atomic = 4;
    return ibv_modify_qp(of, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }

  [[nodiscard]] ibv_sge sge(std::uint32_t offset, std::uint32_t octets) const {
    return {.addr = reinterpret_cast<std::uintptr_t>(buffer) + offset,
            .length = octets,
            .lkey = mr->lkey};
  }
  bool receive(ibv_qp* of, std::uint64_t id, ibv_sge into) const {
    ibv_recv_wr request{.wr_id = id, .next = nullptr, .sg_list = &into, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return of->srq != nullptr ? ibv_post_srq_recv(of->srq, &request, &bad) == 0
                              : ibv_post_recv(of, &request, &bad) == 0;
  }
  static bool post(ibv_qp* of, std::uint64_t id, ibv_wr_opcode opcode, ibv_sge from,
                   const EndNotes& to) {
    ibv_send_wr request{};
    request.wr_id = id;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &from;
    request.num_sge = 1;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = to.address, .compare_add = 1, .swap = 0, .rkey = to.rkey};
    } else {
      request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
    }
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(of, &request, &bad) == 0;
  }

  bool collect(ibv_wc& wc) const {
    const auto end = std::chrono::steady_clock::now() + kEndPatience;
    while (std::chrono::steady_clock::now() < end) {
      if (ibv_poll_cq(cq, 1, &wc) == 1) return true;
    }
    return false;
  }
  /// Posts octets of the buffer's beginning and waits; the status, or -1 when nothing came.
  int run(ibv_wr_opcode opcode, const EndNotes& to, std::uint32_t octets) const {
    if (!post(qp, 0, opcode, sge(0, octets), to)) return -2;
    ibv_wc wc{};
    return collect(wc) ? static_cast<int>(wc.status) : -1;
  }
};

}  // namespace verbatim::testing
