// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

namespace verbatim::testing {

/// Longer than any wait of these tests, also on a busy machine.
inline constexpr std::chrono::seconds kPatience{30};

inline constexpr unsigned kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Memory of a program, and its registration.
struct Buffer {
  std::vector<std::uint8_t> octets;
  ibv_mr* mr = nullptr;

  [[nodiscard]] std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uintptr_t>(octets.data());
  }
  [[nodiscard]] ibv_sge sge() const noexcept {
    return {
        .addr = address(), .length = static_cast<std::uint32_t>(octets.size()), .lkey = mr->lkey};
  }
};

struct QpOptions {
  ibv_qp_type type = IBV_QPT_RC;
  ibv_cq* send_cq = nullptr;
  ibv_cq* receive_cq = nullptr;
  ibv_pd* pd = nullptr;
  ibv_srq* srq = nullptr;
  std::uint32_t depth = 16;
  std::uint32_t inline_octets = 0;
  bool signal_all = true;
};

struct Attributes {
  unsigned access = kAllAccess;
  std::uint8_t timeout = 10;  // 4 ms
  std::uint8_t retry_count = 3;
  std::uint8_t rnr_retry = 1;
  std::uint8_t min_rnr_timer = 10;  // 0.32 ms
  std::uint8_t read_depth = 4;
};

/// A program with one open device on the loopback interface, and what it has made there. At the
/// test's end everything goes in the right order, and each step must succeed.
class World : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_EQ(count, 1);
    device = list[0];
    context = ibv_open_device(device);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    ::fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  }

  void TearDown() override {
    for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    for (ibv_srq* srq : srqs) EXPECT_EQ(ibv_destroy_srq(srq), 0);
    for (ibv_mw* mw : windows) EXPECT_EQ(ibv_dealloc_mw(mw), 0);
    for (ibv_mr* mr : mrs) EXPECT_EQ(ibv_dereg_mr(mr), 0);
    for (ibv_ah* ah : ahs) EXPECT_EQ(ibv_destroy_ah(ah), 0);
    for (ibv_cq* cq : cqs) EXPECT_EQ(ibv_destroy_cq(cq), 0);
    for (ibv_comp_channel* channel : channels) EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    for (ibv_pd* domain : pds) EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }

  // ---- Making things ----

  ibv_cq* make_cq(int capacity = 64, ibv_comp_channel* channel = nullptr) {
    return keep(cqs, ibv_create_cq(context, capacity, nullptr, channel, 0));
  }
  ibv_comp_channel* make_channel() { return keep(channels, ibv_create_comp_channel(context)); }

  /// Lives until everything that may still write into it is gone.
  Buffer& make_buffer(std::size_t octets, unsigned access = kAllAccess, ibv_pd* domain = nullptr) {
    Buffer& buffer = buffers.emplace_back();
    buffer.octets.resize(octets);
    for (std::size_t i = 0; i < octets; ++i) buffer.octets[i] = static_cast<std::uint8_t>(i * 7);
    buffer.mr = keep(
        mrs, ibv_reg_mr(domain == nullptr ? pd : domain, buffer.octets.data(), octets, access));
    return buffer;
  }

  ibv_qp* make_qp(const QpOptions& options) {
    ibv_qp_init_attr init{};
    init.send_cq = options.send_cq;
    init.recv_cq = options.receive_cq == nullptr ? options.send_cq : options.receive_cq;
    init.srq = options.srq;
    init.cap = {.max_send_wr = options.depth,
                .max_recv_wr = options.depth,
                .max_send_sge = 4,
                .max_recv_sge = 4,
                .max_inline_data = options.inline_octets};
    init.qp_type = options.type;
    init.sq_sig_all = options.signal_all ? 1 : 0;
    return keep(qps, ibv_create_qp(options.pd == nullptr ? pd : options.pd, &init));
  }

  /// The entry of the GID table for 127.0.0.1.
  ibv_gid_entry local_gid() {
    for (std::uint32_t i = 0;; ++i) {
      ibv_gid_entry entry;
      if (ibv_query_gid_ex(context, 1, i, &entry, 0) != 0) break;
      if (entry.gid.raw[10] == 0xff && entry.gid.raw[12] == 127) return entry;
    }
    ADD_FAILURE() << "no IPv4 GID";
    return {};
  }
  ibv_ah_attr local_address() {
    const ibv_gid_entry gid = local_gid();
    ibv_ah_attr address{};
    address.is_global = 1;
    address.port_num = 1;
    address.grh.dgid = gid.gid;
    address.grh.sgid_index = static_cast<std::uint8_t>(gid.gid_index);
    address.grh.hop_limit = 1;
    return address;
  }

  static int to_init(ibv_qp* qp, const Attributes& wanted = {}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQKey;
    attr.qp_access_flags = wanted.access;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return ibv_modify_qp(qp, &attr,
                         mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  }
  int to_rtr(ibv_qp* qp, std::uint32_t remote, const Attributes& wanted = {}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = remote;
    attr.rq_psn = 0xfffffe;  // wraps early
    attr.max_dest_rd_atomic = wanted.read_depth;
    attr.min_rnr_timer = wanted.min_rnr_timer;
    attr.ah_attr = local_address();
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_UD) {
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if (qp->qp_type == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(qp, &attr, mask);
  }
  static int to_rts(ibv_qp* qp, const Attributes& wanted = {}) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 0xfffffe;
    attr.timeout = wanted.timeout;
    attr.retry_cnt = wanted.retry_count;
    attr.rnr_retry = wanted.rnr_retry;
    attr.max_rd_atomic = wanted.read_depth;
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type == IBV_QPT_RC) {
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return ibv_modify_qp(qp, &attr, mask);
  }
  void connect(ibv_qp* one, ibv_qp* other, const Attributes& of_one = {},
               const Attributes& of_other = {}) {
    ASSERT_EQ(to_init(one, of_one), 0);
    ASSERT_EQ(to_init(other, of_other), 0);
    ASSERT_EQ(to_rtr(one, other->qp_num, of_one), 0);
    ASSERT_EQ(to_rtr(other, one->qp_num, of_other), 0);
    ASSERT_EQ(to_rts(one, of_one), 0);
    ASSERT_EQ(to_rts(other, of_other), 0);
  }

  // ---- Using them ----

  static int post(ibv_qp* qp, ibv_send_wr wr, ibv_sge sge) {
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_send_wr* bad = nullptr;
    const int result = ibv_post_send(qp, &wr, &bad);
    EXPECT_EQ(bad, result == 0 ? nullptr : &wr);
    return result;
  }
  static int send(ibv_qp* qp, std::uint64_t id, ibv_sge sge, unsigned flags = 0) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    return post(qp, wr, sge);
  }
  static int rdma(ibv_qp* qp, std::uint64_t id, ibv_wr_opcode opcode, ibv_sge local,
                  std::uint64_t remote, std::uint32_t rkey) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return post(qp, wr, local);
  }
  static int atomic(ibv_qp* qp, std::uint64_t id, ibv_sge local, std::uint64_t remote,
                    std::uint32_t rkey, std::uint64_t add) {
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = remote;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = add;
    return post(qp, wr, local);
  }
  static int receive(ibv_qp* qp, std::uint64_t id, ibv_sge sge) {
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    const int result = ibv_post_recv(qp, &wr, &bad);
    EXPECT_EQ(bad, result == 0 ? nullptr : &wr);
    return result;
  }
  static int receive(ibv_srq* srq, std::uint64_t id, ibv_sge sge) {
    ibv_recv_wr wr{.wr_id = id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    const int result = ibv_post_srq_recv(srq, &wr, &bad);
    EXPECT_EQ(bad, result == 0 ? nullptr : &wr);
    return result;
  }

  /// Polls until `count` completions are there, or patience ends.
  static std::vector<ibv_wc> collect(ibv_cq* cq, std::size_t count) {
    std::vector<ibv_wc> found;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (found.size() < count && std::chrono::steady_clock::now() < end) {
      ibv_wc wc[8];
      const auto wanted = static_cast<int>(std::min<std::size_t>(count - found.size(), 8));
      const int polled = ibv_poll_cq(cq, wanted, wc);
      if (polled < 0) break;
      found.insert(found.end(), wc, wc + polled);
      if (polled == 0) std::this_thread::yield();
    }
    EXPECT_EQ(found.size(), count);
    found.resize(std::max(found.size(), count));  // missing ones show as id 0, success
    return found;
  }
  static ibv_wc collect_one(ibv_cq* cq) { return collect(cq, 1)[0]; }
  static bool is_empty(ibv_cq* cq) {
    ibv_wc wc;
    return ibv_poll_cq(cq, 1, &wc) == 0;
  }

  static ibv_qp_state state_of(ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  /// The peer's state changes with the packet that tells it.
  static bool reaches(ibv_qp* qp, ibv_qp_state state) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (state_of(qp) != state) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  /// The next asynchronous event that is not about a connection being established; acknowledged.
  std::optional<ibv_async_event> next_event(std::chrono::milliseconds patience = kPatience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd readable{.fd = context->async_fd, .events = POLLIN, .revents = 0};
      if (left.count() < 0 || ::poll(&readable, 1, static_cast<int>(left.count())) != 1) break;
      ibv_async_event event{};
      if (ibv_get_async_event(context, &event) != 0) break;
      ibv_ack_async_event(&event);
      if (event.event_type != IBV_EVENT_COMM_EST) return event;
    }
    return std::nullopt;
  }
  [[nodiscard]] bool has_no_event() { return !next_event(std::chrono::milliseconds(0)); }

  template <typename T>
  T* keep(std::vector<T*>& list, T* object) {
    EXPECT_NE(object, nullptr) << std::strerror(errno);
    if (object != nullptr) list.push_back(object);
    return object;
  }
  template <typename T>
  static void forget(std::vector<T*>& list, T* object) {
    std::erase(list, object);
  }

  static constexpr std::uint32_t kQKey = 0x11111111;

  ibv_device* device = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  std::deque<Buffer> buffers;
  std::vector<ibv_pd*> pds;
  std::vector<ibv_cq*> cqs;
  std::vector<ibv_comp_channel*> channels;
  std::vector<ibv_qp*> qps;
  std::vector<ibv_srq*> srqs;
  std::vector<ibv_mr*> mrs;
  std::vector<ibv_mw*> windows;
  std::vector<ibv_ah*> ahs;
};

/// Two connected queue pairs, each with a completion queue for sends and one for receives.
class Pair : public World {
 protected:
  void join(const Attributes& of_near = {}, const Attributes& of_far = {}, QpOptions near_qp = {},
            QpOptions far_qp = {}) {
    near_sends = make_cq();
    near_receives = make_cq();
    far_sends = make_cq();
    far_receives = make_cq();
    near_qp.send_cq = near_sends;
    near_qp.receive_cq = near_receives;
    far_qp.send_cq = far_sends;
    far_qp.receive_cq = far_receives;
    near = make_qp(near_qp);
    far = make_qp(far_qp);
    connect(near, far, of_near, of_far);
  }

  /// A request fails with `status`; what was posted behind it is flushed, in order, and the queue
  /// pair is in error.
  void expect_failure_then_flush(ibv_cq* cq, ibv_qp* qp, ibv_wc_status status,
                                 std::uint64_t first_id, std::size_t behind) {
    const auto found = collect(cq, 1 + behind);
    EXPECT_EQ(found[0].status, status) << ibv_wc_status_str(found[0].status);
    for (std::size_t i = 0; i <= behind; ++i) {
      EXPECT_EQ(found[i].wr_id, first_id + i);
      EXPECT_EQ(found[i].qp_num, qp->qp_num);
      if (i > 0) {
        EXPECT_EQ(found[i].status, IBV_WC_WR_FLUSH_ERR);
      }
    }
    EXPECT_EQ(state_of(qp), IBV_QPS_ERR);
  }
  void expect_event(ibv_event_type type, ibv_qp* qp) {
    const auto event = next_event();
    ASSERT_TRUE(event.has_value());
    EXPECT_EQ(event->event_type, type) << ibv_event_type_str(event->event_type);
    EXPECT_EQ(event->element.qp, qp);
  }

  ibv_cq* near_sends = nullptr;
  ibv_cq* near_receives = nullptr;
  ibv_cq* far_sends = nullptr;
  ibv_cq* far_receives = nullptr;
  ibv_qp* near = nullptr;
  ibv_qp* far = nullptr;
};

}  // namespace verbatim::testing
