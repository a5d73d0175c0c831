// SPDX-License-Identifier: Apache-2.0
// Signal handlers that fork, at any point of a call of verbs: the parent continues undisturbed, and
// the child has its own memory and ends.
//
// A signal that comes in the middle of malloc(3) is another matter: the C library's own fork(3) may
// wait for ever there. So the loops below allocate what they need beforehand, or always the same.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include "heap_in_use.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr int kForks = 120;
constexpr std::byte kParents{7};
constexpr std::byte kChilds{9};

struct Connected {
  End ends[2];
  bool open() {
    for (End& end : ends) {
      if (!end.open() || !end.make_qp(&end.qp)) return false;
    }
    return ends[0].connect(ends[0].qp, ends[1].qp->qp_num, {}) &&
           ends[1].connect(ends[1].qp, ends[0].qp->qp_num, {});
  }
};

/// What the handler does, and what it has found.
struct Forking {
  std::byte* memory = nullptr;  // of End::kOctets, registered
  std::size_t checked_from = 0;
  bool children_return = false;
  volatile sig_atomic_t forks = 0;
  volatile sig_atomic_t failures = 0;
  volatile sig_atomic_t is_child = 0;
};
Forking g_forking;

/// Microseconds until the next signal; they vary, so that it comes at every point.
void set_timer(int microseconds) {
  const itimerval once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = microseconds}};
  ::setitimer(ITIMER_REAL, &once, nullptr);
}

/// The library keeps its descriptors at high numbers. Its sockets tell other processes whether the
/// parent lives, so a child has none of them.
bool has_sockets_of_the_library() {
  for (int number = 1024; number < 1280; ++number) {
    struct stat state {};
    if (::fstat(number, &state) == 0 && S_ISSOCK(state.st_mode)) return true;
  }
  return false;
}

/// In the child, which may call what is safe in a handler.
int look_around() {
  std::byte* const from = g_forking.memory + g_forking.checked_from;
  std::byte* const end = g_forking.memory + End::kOctets;
  if (!std::all_of(from, end, [](std::byte octet) { return octet == kParents; })) return 1;
  std::fill(from, end, kChilds);
  return has_sockets_of_the_library() ? 2 : 0;
}

void fork_in_handler(int) {
  const int before = errno;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!g_forking.children_return) ::_exit(look_around());
    // Its alarm ends it where it hangs.
    struct sigaction end {};
    end.sa_handler = SIG_DFL;
    ::sigaction(SIGALRM, &end, nullptr);
    ::alarm(20);
    g_forking.is_child = 1;
    errno = before;
    return;
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
    g_forking.failures = status;
  }
  g_forking.forks = g_forking.forks + 1;
  set_timer(300 + g_forking.forks * 137 % 1000);
  errno = before;
}

/// Repeats `work` while a handler forks. 0, or the number of the error.
template <typename Work>
int work_under_forks(Connected& pair, Work&& work) {
  g_forking.memory = pair.ends[1].buffer;
  std::fill(g_forking.memory, g_forking.memory + End::kOctets, kParents);
  for (int i = 0; i < 100; ++i) {
    if (!work()) return 20;
  }
  struct sigaction action {};
  action.sa_handler = fork_in_handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  set_timer(500);
  while (g_forking.forks < kForks && g_forking.failures == 0) {
    const bool is_done = work();
    if (g_forking.is_child != 0) ::_exit(0);  // whatever its work came to: it has left the call
    if (!is_done) return 21;
  }
  set_timer(0);
  if (g_forking.failures != 0) return g_forking.failures < 256 ? 256 - 1 : g_forking.failures >> 8;
  const bool is_intact =
      std::all_of(g_forking.memory + g_forking.checked_from, g_forking.memory + End::kOctets,
                  [](std::byte octet) { return octet == kParents; });
  return is_intact ? 0 : 22;
}

/// Runs it in a process of its own; -1 when that hangs or crashes.
template <typename Body>
int in_process(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  const bool has_ended = await([&] { return ::waitpid(child, &status, WNOHANG) == child; });
  if (!has_ended) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A WRITE and its completion, which does not come in a child.
bool write_once(const Connected& pair, const EndNotes& to) {
  const End& end = pair.ends[0];
  if (!End::post(end.qp, 0, IBV_WR_RDMA_WRITE, end.sge(0, 64), to)) return false;
  ibv_wc wc{};
  int count = 0;
  while (count == 0 && g_forking.is_child == 0) count = ibv_poll_cq(end.cq, 1, &wc);
  return count == 1 && wc.status == IBV_WC_SUCCESS;
}

bool register_once(const End& end) {
  ibv_mr* const mr = ibv_reg_mr(end.pd, end.buffer, End::kOctets, End::kAllAccess);
  return mr != nullptr && ibv_dereg_mr(mr) == 0;
}

class SignalFork : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    // As with malloc(3) of the C library, which programs rarely interrupt (decision 0023).
    if (kIsSanitized)
      GTEST_SKIP() << "a handler that interrupts the sanitizer's malloc cannot fork";
    g_forking.children_return = GetParam();
  }
};

TEST_P(SignalFork, InterruptsPosting) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              g_forking.checked_from = 64;
              EndNotes to;
              pair.ends[1].tell(to, 1);
              return work_under_forks(pair, [&] { return write_once(pair, to); });
            }),
            0);
}

TEST_P(SignalFork, InterruptsPolling) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              return work_under_forks(pair, [&] {
                ibv_wc wc;
                return ibv_poll_cq(pair.ends[0].cq, 1, &wc) == 0;
              });
            }),
            0);
}

TEST_P(SignalFork, InterruptsRegistration) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              return work_under_forks(pair, [&] { return register_once(pair.ends[0]); });
            }),
            0);
}

TEST_P(SignalFork, InterruptsQuestionsAboutDevices) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              ibv_device* const device = pair.ends[0].context->device;
              return work_under_forks(pair, [&] { return ibv_get_device_guid(device) != 0; });
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Children, SignalFork, ::testing::Values(false, true),
                         [](const auto& each) { return each.param ? "Return" : "Leave"; });

}  // namespace
}  // namespace verbatim::testing
