// SPDX-License-Identifier: Apache-2.0
// Programs that fork, cancel threads, block signals or exit while they use an adapter.
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "base/test_cancelled_thread.h"
#include "heap_in_use.h"
#include "in_process.h"
#include "two_ends.h"

extern char** environ;

namespace verbatim::testing {
namespace {

/// Forks so many times while another thread repeats `work`. Returns the results of the children.
template <typename Work, typename Child>
int fork_beside(Work&& work, int forks, Child&& child) {
  std::atomic<bool> is_over{false};
  std::atomic<int> rounds{0};
  std::atomic<bool> failed{false};
  std::thread worker([&] {
    while (!is_over && !failed) {
      failed = !work();
      ++rounds;
    }
  });
  int worst = 0;
  for (int i = 0; i < forks && worst == 0; ++i) worst = in_process(child);
  const int rounds_before = rounds;
  const bool goes_on = await([&] { return failed || rounds > rounds_before + 1; });
  is_over = true;
  worker.join();
  if (failed) return 100;
  return goes_on ? worst : 101;
}

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

TEST(ForkBeside, RegistrationGoesOnAndChildrenGetOut) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              const End& end = pair.ends[0];
              return fork_beside(
                  [&] {
                    ibv_mr* const mr = ibv_reg_mr(end.pd, end.buffer, 65536, End::kAllAccess);
                    return mr != nullptr && ibv_dereg_mr(mr) == 0;
                  },
                  100, [] { return 0; });
            }),
            0);
}

TEST(ForkBeside, DevicesOpenAndCloseAndTheChildHasItsOwn) {
  EXPECT_EQ(in_process([] {
              const auto open_and_close = [] {
                End end;
                const bool is_good = end.open() && ibv_dereg_mr(end.mr) == 0 &&
                                     ibv_destroy_cq(end.cq) == 0 && ibv_dealloc_pd(end.pd) == 0 &&
                                     ibv_close_device(end.context) == 0;
                std::free(end.buffer);
                return is_good;
              };
              return fork_beside(open_and_close, 40, [&] { return open_and_close() ? 0 : 1; });
            }),
            0);
}

TEST(ForkBeside, ObjectsComeAndGoAndTheChildDestroysWhatItHas) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              End& end = pair.ends[0];
              ibv_qp* other = nullptr;
              if (!end.make_qp(&other)) return 11;
              return fork_beside(
                  [&] {
                    ibv_qp* qp = nullptr;
                    ibv_cq* const cq = ibv_create_cq(end.context, 1, nullptr, nullptr, 0);
                    return cq != nullptr && end.make_qp(&qp) && ibv_destroy_qp(qp) == 0 &&
                           ibv_destroy_cq(cq) == 0;
                  },
                  60,
                  [&] {
                    ibv_qp* mine = nullptr;
                    End own;
                    if (ibv_destroy_qp(other) != 0 || ibv_destroy_qp(end.qp) != 0) return 1;
                    return own.open() && own.make_qp(&mine) ? 0 : 2;
                  });
            }),
            0);
}

TEST(ForkBeside, QuestionsAboutThePortAreAnsweredInTheChildAsWell) {
  EXPECT_EQ(in_process([] {
              End end;
              if (!end.open()) return 10;
              const auto ask = [&] {
                ibv_gid gid{};
                return ibv_query_gid(end.context, 1, 0, &gid) == 0;
              };
              return fork_beside(ask, 300, [&] { return ask() ? 0 : 1; });
            }),
            0);
}

TEST(ForkBeside, SpawnedProgramsNeedNoHandlers) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              ibv_wc wc;
              return fork_beside(
                  [&] { return ibv_poll_cq(pair.ends[0].cq, 1, &wc) >= 0; }, 20,
                  [] {
                    pid_t child = 0;
                    char name[] = "/bin/true";
                    char* arguments[] = {name, nullptr};
                    int status = 0;
                    return posix_spawn(&child, name, nullptr, nullptr, arguments, environ) == 0 &&
                                   ::waitpid(child, &status, 0) == child && status == 0
                               ? 0
                               : 1;
                  });
            }),
            0);
}

std::size_t address_space_octets() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  unsigned long pages = 0;
  const bool is_read = file != nullptr && std::fscanf(file, "%lu", &pages) == 1;
  if (file != nullptr) std::fclose(file);
  return is_read ? pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// The limit lets the library have its segment, and then perhaps not the stack of a thread.
TEST(Limits, OfTheAddressSpaceAreAnErrorOfTheCall) {
#if VB_ADDRESS_SANITIZER || VB_THREAD_SANITIZER
  GTEST_SKIP() << "sanitizers need terabytes of addresses";
#endif
  constexpr std::size_t kStep = std::size_t{3} << 20;
  constexpr int kSteps = 48;
  constexpr int kOpened = 10;
  constexpr int kRefused = 11;
  int refused = 0;
  int opened = 0;
  for (int step = 0; step < kSteps; ++step) {
    const int status = in_process([&] {
      const rlim_t octets = address_space_octets() + static_cast<std::size_t>(step) * kStep;
      const rlimit limit{.rlim_cur = octets, .rlim_max = octets};
      if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
      ibv_device** const list = ibv_get_device_list(nullptr);
      if (list == nullptr || list[0] == nullptr) return 2;
      errno = 0;
      if (ibv_open_device(list[0]) != nullptr) return kOpened;
      return errno == ENOMEM ? kRefused : 3;
    });
    EXPECT_TRUE(status == kOpened || status == kRefused) << status << " at step " << step;
    refused += status == kRefused ? 1 : 0;
    opened += status == kOpened ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(opened, 0);
}

TEST(Exit, EndsAProcessWhoseThreadsPollAndWait) {
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(in_process([] {
                static Connected pair;  // outlives main()
                if (!pair.open()) return 10;
                std::thread([] {
                  ibv_wc wc;
                  for (;;) (void)ibv_poll_cq(pair.ends[0].cq, 1, &wc);
                }).detach();
                std::thread([] {
                  ibv_async_event event;
                  (void)ibv_get_async_event(pair.ends[1].context, &event);
                }).detach();
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
                std::exit(7);
                return 0;
              }),
              7);
  }
}

/// Starts a thread, lets it run for so long, and cancels it.
void cancel_after(std::chrono::microseconds time, void* (*run)(void*), void* argument) {
  pthread_t thread;
  ASSERT_EQ(::pthread_create(&thread, nullptr, run, argument), 0);
  std::this_thread::sleep_for(time);
  ::pthread_cancel(thread);
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
}

TEST(Cancel, APollingThreadLeavesNoLock) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              for (int round = 0; round < 60; ++round) {
                cancel_after(
                    std::chrono::microseconds(200 + 13 * round),
                    [](void* cq) -> void* {
                      test::expect_cancellation();
                      for (;;) {
                        ibv_wc wc;
                        for (int i = 0; i < 500; ++i) {
                          (void)ibv_poll_cq(static_cast<ibv_cq*>(cq), 1, &wc);
                        }
                        ::usleep(1);
                      }
                    },
                    pair.ends[0].cq);
                ibv_wc wc;
                if (ibv_poll_cq(pair.ends[0].cq, 1, &wc) < 0) return 11;
              }
              return ::testing::Test::HasFailure() ? 12 : 0;
            }),
            0);
}

TEST(Cancel, APostingThreadLeavesNoLock) {
  EXPECT_EQ(in_process([] {
              static Connected pair;
              if (!pair.open()) return 10;
              for (int round = 0; round < 60; ++round) {
                cancel_after(
                    std::chrono::microseconds(200 + 13 * round),
                    [](void*) -> void* {
                      test::expect_cancellation();
                      EndNotes to;
                      pair.ends[1].tell(to, 1);
                      for (;;) {
                        ibv_wc wc;
                        const ibv_sge sge = pair.ends[0].sge(0, 64);
                        (void)End::post(pair.ends[0].qp, 0, IBV_WR_RDMA_WRITE, sge, to);
                        while (ibv_poll_cq(pair.ends[0].cq, 1, &wc) > 0) {
                        }
                        ::pthread_testcancel();
                      }
                    },
                    nullptr);
              }
              if (::testing::Test::HasFailure()) return 12;
              return ibv_destroy_qp(pair.ends[0].qp) == 0 && ibv_destroy_qp(pair.ends[1].qp) == 0
                         ? 0
                         : 13;
            }),
            0);
}

struct Waiter {
  ibv_comp_channel* channel = nullptr;
  static void* run(void* argument) {
    test::expect_cancellation();
    for (;;) {
      ibv_cq* cq = nullptr;
      void* context = nullptr;
      ibv_wc wc;
      if (ibv_get_cq_event(static_cast<Waiter*>(argument)->channel, &cq, &context) != 0) break;
      ibv_ack_cq_events(cq, 1);
      (void)ibv_req_notify_cq(cq, 0);
      while (ibv_poll_cq(cq, 1, &wc) > 0) {
      }
    }
    return nullptr;
  }
};

/// A queue pair in the error state completes a receive as soon as it is posted.
bool complete_one(ibv_qp* qp) {
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &request, &bad) == 0;
}

TEST(Cancel, AWaitingThreadHasAnEventOrHasNone) {
  EXPECT_EQ(in_process([] {
              End end;
              if (!end.open()) return 10;
              for (int round = 0; round < 100; ++round) {
                Waiter waiter{.channel = ibv_create_comp_channel(end.context)};
                ibv_cq* const first = end.cq;
                end.cq = ibv_create_cq(end.context, 64, nullptr, waiter.channel, 0);
                if (end.cq == nullptr || ibv_req_notify_cq(end.cq, 0) != 0) return 11;
                ibv_qp* qp = nullptr;
                if (!end.make_qp(&qp) || !End::to_state(qp, IBV_QPS_ERR)) return 12;
                pthread_t thread;
                if (::pthread_create(&thread, nullptr, Waiter::run, &waiter) != 0) return 13;
                for (int i = 0; i < 20 + round; ++i) (void)complete_one(qp);
                ::pthread_cancel(thread);
                ::pthread_join(thread, nullptr);
                if (ibv_destroy_qp(qp) != 0 || ibv_destroy_cq(end.cq) != 0) return 14;
                if (ibv_destroy_comp_channel(waiter.channel) != 0) return 15;
                end.cq = first;
              }
              return 0;
            }),
            0);
}

TEST(Events, AllArriveHoweverManyQueuesHaveOne) {
  EXPECT_EQ(in_process([] {
              constexpr int kQueues = 4500;  // more than a pipe of the system has places for
              End end;
              if (!end.open()) return 10;
              ibv_comp_channel* const channel = ibv_create_comp_channel(end.context);
              for (int i = 0; i < kQueues; ++i) {
                end.cq = ibv_create_cq(end.context, 64, nullptr, channel, 0);
                if (end.cq == nullptr || ibv_req_notify_cq(end.cq, 0) != 0) return 11;
                ibv_qp* qp = nullptr;
                if (!end.make_qp(&qp) || !End::to_state(qp, IBV_QPS_ERR)) return 12;
                if (!complete_one(qp)) return 13;
              }
              int events = 0;
              pollfd polled{.fd = channel->fd, .events = POLLIN, .revents = 0};
              while (::poll(&polled, 1, 0) == 1) {
                ibv_cq* cq = nullptr;
                void* context = nullptr;
                if (ibv_get_cq_event(channel, &cq, &context) != 0) return 14;
                ibv_ack_cq_events(cq, 1);
                ++events;
              }
              return events == kQueues ? 0 : 15;
            }),
            0);
}

TEST(Events, AQueueThatIsArmedAgainUnreadHasOneForEachTime) {
  EXPECT_EQ(in_process([] {
              constexpr int kTimes = 5;
              End end;
              if (!end.open()) return 10;
              ibv_comp_channel* const channel = ibv_create_comp_channel(end.context);
              end.cq = ibv_create_cq(end.context, 64, nullptr, channel, 0);
              ibv_qp* qp = nullptr;
              if (!end.make_qp(&qp) || !End::to_state(qp, IBV_QPS_ERR)) return 11;
              for (int i = 0; i < kTimes; ++i) {
                ibv_wc wc;
                if (ibv_req_notify_cq(end.cq, 0) != 0 || !complete_one(qp)) return 12;
                if (ibv_poll_cq(end.cq, 1, &wc) != 1) return 13;
              }
              int events = 0;
              pollfd polled{.fd = channel->fd, .events = POLLIN, .revents = 0};
              while (::poll(&polled, 1, 0) == 1) {
                ibv_cq* cq = nullptr;
                void* context = nullptr;
                if (ibv_get_cq_event(channel, &cq, &context) != 0) return 14;
                ++events;
              }
              ibv_ack_cq_events(end.cq, static_cast<unsigned>(events));
              if (events != kTimes) return 15;
              return ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(end.cq) == 0 ? 0 : 16;
            }),
            0);
}

/// The thread that uses verbs blocks all signals, and the memory of a request is unmapped.
TEST(Signals, AFaultOfAThreadThatBlocksThemFailsTheRequest) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              End& target = pair.ends[1];
              constexpr std::size_t kOctets = 65536;
              void* const pages = ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              std::memset(pages, 1, kOctets);
              ibv_mr* const mr = ibv_reg_mr(target.pd, pages, kOctets, End::kAllAccess);
              if (mr == nullptr) return 11;
              EndNotes to;
              target.tell(to, 1);
              to.address = reinterpret_cast<std::uintptr_t>(pages);
              to.rkey = mr->rkey;
              int result = 0;
              std::thread([&] {
                sigset_t all;
                ::sigfillset(&all);
                ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
                ::munmap(pages, kOctets);
                const ibv_sge sge = pair.ends[0].sge(0, 4096);
                ibv_wc wc{};
                if (!End::post(pair.ends[0].qp, 0, IBV_WR_RDMA_WRITE, sge, to)) result = 12;
                if (result == 0 && !pair.ends[0].collect(wc)) result = 13;
                sigset_t now;
                ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
                if (::sigismember(&now, SIGTERM) != 1) result = 14;  // not ours to unblock
              }).join();
              return result;
            }),
            0);
}

/// The thread blocks all signals around each request, as in a critical section. The file that the
/// memory maps is shorter when the last one comes, and the pages behind its end are gone.
TEST(Signals, AFaultOfAThreadThatBlocksThemAroundEachRequestFailsTheRequest) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              constexpr std::size_t kOctets = 65536;
              const int file = ::memfd_create("verbatim test", MFD_CLOEXEC);
              if (file < 0 || ::ftruncate(file, kOctets) != 0) return 14;
              void* const pages =
                  ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
              std::memset(pages, 1, kOctets);
              End& target = pair.ends[1];
              ibv_mr* const mr = ibv_reg_mr(target.pd, pages, kOctets, End::kAllAccess);
              if (mr == nullptr) return 11;
              EndNotes to;
              target.tell(to, 1);
              to.address = reinterpret_cast<std::uintptr_t>(pages);
              to.rkey = mr->rkey;
              const ibv_sge sge = pair.ends[0].sge(0, 4096);
              sigset_t all;
              ::sigfillset(&all);
              constexpr int kRequests = 100;
              for (int request = 1; request <= kRequests; ++request) {
                if (request == kRequests && ::ftruncate(file, 0) != 0) return 15;
                sigset_t before;
                ibv_wc wc{};
                ::pthread_sigmask(SIG_SETMASK, &all, &before);
                if (!End::post(pair.ends[0].qp, 0, IBV_WR_RDMA_WRITE, sge, to)) return 12;
                if (!pair.ends[0].collect(wc)) return 13;
                ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
              }
              return 0;
            }),
            0);
}

sigjmp_buf g_back;
void* g_forbidden = nullptr;
volatile sig_atomic_t g_own_faults = 0;

/// A signal handler of the program that touches unmapped memory, as programs do that test in this
/// way whether memory is mapped.
void fault_in_handler(int) {
  if (sigsetjmp(g_back, 1) == 0) {
    *static_cast<volatile char*>(g_forbidden) = 1;
  } else {
    g_own_faults = g_own_faults + 1;
  }
}

/// It interrupts work on registered memory, where the library handles faults.
TEST(Signals, AFaultInAHandlerOfTheProgramsIsTheProgramsOwn) {
  if (kIsSanitized)
    GTEST_SKIP() << "the sanitizer's memcpy, which the library calls, is in the test";
  EXPECT_EQ(in_process([] {
              g_forbidden = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              struct sigaction caught {};
              caught.sa_handler = [](int) { siglongjmp(g_back, 1); };
              ::sigaction(SIGSEGV, &caught, nullptr);
              Connected pair;
              if (!pair.open()) return 10;
              struct sigaction action {};
              action.sa_handler = fault_in_handler;
              action.sa_flags = SA_RESTART;
              ::sigaction(SIGPROF, &action, nullptr);
              const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                                    .it_value = {.tv_sec = 0, .tv_usec = 1000}};
              ::setitimer(ITIMER_PROF, &often, nullptr);
              EndNotes to;
              pair.ends[1].tell(to, 1);
              while (g_own_faults < 200) {
                sigset_t blocked;
                if (pair.ends[0].run(IBV_WR_RDMA_WRITE, to, End::kOctets) != 0) return 11;
                ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
                if (::sigismember(&blocked, SIGPROF) == 1) return 12;
              }
              return 0;
            }),
            0);
}

/// A signal that another process sends is no fault: it ends the process as usual.
TEST(Signals, ASegmentationFaultThatWasSentEndsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer handles it
    Connected pair;
    if (!pair.open()) ::_exit(1);
    ::raise(SIGSEGV);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

}  // namespace
}  // namespace verbatim::testing
