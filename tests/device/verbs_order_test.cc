// SPDX-License-Identifier: Apache-2.0
// Programs destroy their objects in any order, twice, or not at all, and exit at any time.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <random>
#include <string>

#include "qp_capacity.h"
#include "world.h"

/// Set in processes that exit in the middle of their work: the leak checker cannot stop all of
/// their threads, and sees leaks where there are none.
static bool g_exits_in_the_middle = false;
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return g_exits_in_the_middle ? 1 : 0;
}

namespace verbatim::testing {
namespace {

class VerbsOrder : public Pair {
 protected:
  struct Object {
    std::string name;
    std::function<int()> destroy;  // 0, EBUSY while another needs it, EINVAL when it is gone
  };

  /// One of everything in a context of its own, with work under way.
  std::vector<Object> make_everything(Buffer& memory) {
    ibv_context* own = ibv_open_device(device);
    ibv_pd* domain = ibv_alloc_pd(own);
    ibv_comp_channel* channel = ibv_create_comp_channel(own);
    ibv_cq* sends = ibv_create_cq(own, 64, nullptr, channel, 0);
    ibv_cq* receives = ibv_create_cq(own, 64, nullptr, channel, 0);
    EXPECT_EQ(ibv_req_notify_cq(receives, 0), 0);
    ibv_srq_init_attr srq_init{};
    srq_init.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    ibv_srq* srq = ibv_create_srq(domain, &srq_init);
    ibv_mr* mr = ibv_reg_mr(domain, memory.octets.data(), memory.octets.size(),
                            kAllAccess | IBV_ACCESS_MW_BIND);
    ibv_mw* mw = ibv_alloc_mw(domain, IBV_MW_TYPE_1);
    ibv_ah_attr address = local_address();
    ibv_ah* ah = ibv_create_ah(domain, &address);
    ibv_qp_init_attr init{};
    init.send_cq = sends;
    init.recv_cq = receives;
    init.cap = qp_capacity(16, 16);
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    ibv_qp* one = ibv_create_qp(domain, &init);
    init.srq = srq;
    ibv_qp* other = ibv_create_qp(domain, &init);
    connect(one, other, {.timeout = 14, .rnr_retry = 7});
    const ibv_sge sge{.addr = memory.address(),
                      .length = static_cast<std::uint32_t>(memory.octets.size()),
                      .lkey = mr->lkey};
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(receive(srq, i, sge), 0);
      EXPECT_EQ(send(one, i, sge), 0);
      EXPECT_EQ(rdma(other, i, IBV_WR_RDMA_READ, sge, memory.address(), mr->rkey), 0);
    }
    ibv_mw_bind bind{};
    bind.bind_info = {.mr = mr,
                      .addr = memory.address(),
                      .length = 64,
                      .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    EXPECT_EQ(ibv_bind_mw(one, mw, &bind), 0);
    return {{"device", [own] { return ibv_close_device(own); }},
            {"domain", [domain] { return ibv_dealloc_pd(domain); }},
            {"channel", [channel] { return ibv_destroy_comp_channel(channel); }},
            {"send queue's CQ", [sends] { return ibv_destroy_cq(sends); }},
            {"receive queue's CQ", [receives] { return ibv_destroy_cq(receives); }},
            {"SRQ", [srq] { return ibv_destroy_srq(srq); }},
            {"region", [mr] { return ibv_dereg_mr(mr); }},
            {"window", [mw] { return ibv_dealloc_mw(mw); }},
            {"address handle", [ah] { return ibv_destroy_ah(ah); }},
            {"queue pair", [one] { return ibv_destroy_qp(one); }},
            {"other queue pair", [other] { return ibv_destroy_qp(other); }}};
  }

  /// Runs `body` in a child, which need not return; how it ended.
  template <typename Body>
  static int status_of_child(Body&& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body());
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
};

TEST_F(VerbsOrder, ObjectsGoInAnyOrder) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Buffer memory;  // outlives everything that was made on it
    memory.octets.resize(5000);
    std::vector<Object> left = make_everything(memory);
    while (!left.empty()) {
      std::ranges::shuffle(left, random);
      const std::size_t before = left.size();
      std::erase_if(left, [](const Object& object) {
        const int result = object.destroy();
        EXPECT_TRUE(result == 0 || result == EBUSY) << object.name << ": " << result;
        return result == 0;
      });
      ASSERT_LT(left.size(), before) << "all that is left says that it is in use";
    }
  }
}

TEST_F(VerbsOrder, NothingGoesTwice) {
  Buffer memory;
  memory.octets.resize(5000);
  std::vector<Object> left = make_everything(memory);
  std::vector<Object> gone;
  while (!left.empty()) {
    const std::size_t before = left.size();
    std::erase_if(left, [&](const Object& object) {
      if (object.destroy() != 0) return false;
      // The inline function for windows reads the window before the library is called.
      if (object.name != "window") gone.push_back(object);
      return true;
    });
    ASSERT_LT(left.size(), before);
  }
  for (const Object& object : gone) EXPECT_EQ(object.destroy(), EINVAL) << object.name;
}

TEST_F(VerbsOrder, ObjectsThatTheLibraryDidNotMakeAreRefused) {
  alignas(64) std::byte junk[1024]{};
  EXPECT_EQ(ibv_dealloc_pd(reinterpret_cast<ibv_pd*>(junk)), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(reinterpret_cast<ibv_mr*>(junk)), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(reinterpret_cast<ibv_cq*>(junk)), EINVAL);
  EXPECT_EQ(ibv_destroy_comp_channel(reinterpret_cast<ibv_comp_channel*>(junk)), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(reinterpret_cast<ibv_qp*>(junk)), EINVAL);
  EXPECT_EQ(ibv_destroy_srq(reinterpret_cast<ibv_srq*>(junk)), EINVAL);
  EXPECT_EQ(ibv_destroy_ah(reinterpret_cast<ibv_ah*>(junk)), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(nullptr), EINVAL);
}

TEST_F(VerbsOrder, ObjectsOfAnotherContextAreRefused) {
  ibv_context* other = ibv_open_device(device);
  ASSERT_NE(other, nullptr);
  ibv_cq* foreign = ibv_create_cq(other, 4, nullptr, nullptr, 0);
  ibv_comp_channel* foreign_channel = ibv_create_comp_channel(other);
  ibv_qp_init_attr init{};
  init.send_cq = make_cq();
  init.recv_cq = foreign;
  init.qp_type = IBV_QPT_RC;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(context, 4, nullptr, foreign_channel, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_comp_channel(foreign_channel), 0);
  EXPECT_EQ(ibv_destroy_cq(foreign), 0);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(VerbsOrder, EventsAboutWhatIsGoneAreGone) {
  ibv_comp_channel* channel = make_channel();
  ibv_cq* cq = make_cq(16, channel);
  near = make_qp({.send_cq = make_cq(), .receive_cq = cq});
  far = make_qp({.send_cq = make_cq()});
  connect(near, far);
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(receive(near, 1, buffer.sge()), 0);
  ASSERT_EQ(send(far, 1, buffer.sge()), 0);
  pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&readable, 1, 30'000), 1);  // and no thread reads it
  forget(qps, near);
  ASSERT_EQ(ibv_destroy_qp(near), 0);
  forget(cqs, cq);
  ASSERT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  EXPECT_TRUE(has_no_event());
}

TEST_F(VerbsOrder, NonsenseInAModifyChangesNothing) {
  ibv_qp* qp = make_qp({.send_cq = make_cq()});
  ASSERT_EQ(to_init(qp), 0);
  ibv_qp_attr attr{};
  for (const int state : {7, 8, 99, 255, 256, -1}) {
    attr.qp_state = static_cast<ibv_qp_state>(state);
    EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL) << state;
  }
  attr.qp_state = IBV_QPS_RTR;
  for (int bit = 21; bit < 31; ++bit) {
    const int mask = IBV_QP_STATE | static_cast<int>(1U << bit);
    EXPECT_NE(ibv_modify_qp(qp, &attr, mask), 0) << bit;
  }
  attr.ah_attr = local_address();
  attr.path_mtu = static_cast<ibv_mtu>(6);
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 1U << 24;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
  attr.dest_qp_num = 5;
  attr.ah_attr.grh.sgid_index = 200;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), EINVAL);
  EXPECT_EQ(state_of(qp), IBV_QPS_INIT);
}

// ---- Exits ----

/// How a program may end with everything open, its work under way and a thread that polls.
class VerbsExit : public VerbsOrder, public ::testing::WithParamInterface<void (*)()> {};

TEST_P(VerbsExit, InTheMiddleOfWorkIsClean) {
  const int status = status_of_child([this] {
    g_exits_in_the_middle = true;
    static Buffer memory;
    memory.octets.resize(5000);
    (void)make_everything(memory);
    context = ibv_open_device(device);
    pd = ibv_alloc_pd(context);
    Buffer& buffer = make_buffer(5000);
    join({.timeout = 14, .retry_count = 7, .rnr_retry = 7});
    std::thread([this, &buffer] {
      for (;;) {
        ibv_wc wc;
        (void)ibv_poll_cq(near_sends, 1, &wc);
        (void)rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey);
      }
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    GetParam()();
    return 1;
  });
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  } else {
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  // Other processes on the host go on.
  join();
  Buffer& buffer = make_buffer(64);
  ASSERT_EQ(rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey), 0);
  EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
}
INSTANTIATE_TEST_SUITE_P(Verbs, VerbsExit,
                         ::testing::Values(
                             +[] { std::exit(0); }, +[] { std::quick_exit(0); },
                             +[] { ::_exit(0); }, +[] { ::raise(SIGKILL); }));

// ---- Old kernels ----

/// From now on the process has no epoll_pwait2, as before Linux 5.11. False when that is not
/// possible.
bool forbid_fine_waits() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = 4, .filter = rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(VerbsOrder, AKernelWithoutFineWaitsWillDo) {
  constexpr int kCannotTell = 9;
  const int status = status_of_child([this] {
    if (!forbid_fine_waits()) return kCannotTell;
    mrs.clear();
    context = ibv_open_device(device);
    pd = ibv_alloc_pd(context);
    ibv_comp_channel* channel = make_channel();
    ibv_cq* cq = make_cq(16, channel);
    near = make_qp({.send_cq = cq});
    far = make_qp({.send_cq = make_cq()});
    connect(near, far);
    Buffer& buffer = make_buffer(5000);
    (void)ibv_req_notify_cq(cq, 0);
    (void)rdma(near, 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey);
    // Only the engine's thread is there to do it.
    pollfd readable{.fd = channel->fd, .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, 30'000) == 1 && collect_one(cq).status == IBV_WC_SUCCESS ? 0 : 1;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kCannotTell) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace verbatim::testing
