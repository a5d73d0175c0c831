// SPDX-License-Identifier: Apache-2.0
// ibv_fork_init(3): what children get of registered memory that peers map.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

/// Whether children get nothing of the mapping at an address (VmFlags of /proc/self/smaps).
bool is_kept_from_children(const void* address) {
  std::FILE* smaps = std::fopen("/proc/self/smaps", "r");
  if (smaps == nullptr) return false;
  char line[512];
  bool is_it = false;
  bool is_kept = false;
  while (std::fgets(line, sizeof line, smaps) != nullptr) {
    unsigned long first = 0;
    unsigned long last = 0;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (std::sscanf(line, "%lx-%lx ", &first, &last) == 2) is_it = first <= at && at < last;
    if (is_it && std::strncmp(line, "VmFlags:", 8) == 0) {
      is_kept = std::strstr(line, " dc") != nullptr;
    }
  }
  std::fclose(smaps);
  return is_kept;
}

/// Two ends in one process, connected: their memory moves to where peers can map it.
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

class Fork : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("VERBATIM_PATH");
    if (path != nullptr && std::strcmp(path, "packet") == 0) GTEST_SKIP() << "nothing moves";
    ::setenv("VERBATIM_REHOME", "1", 1);
  }
};

TEST_F(Fork, KeepsRegisteredMemoryFromChildrenAfterItsInit) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (ibv_fork_init() != 0 || ibv_is_fork_initialized() != IBV_FORK_ENABLED) return 1;
              if (!pair.open()) return 2;
              std::byte* const buffer = pair.ends[0].buffer;
              buffer[0] = std::byte{7};
              if (!is_kept_from_children(buffer)) return 3;
              if (ibv_dereg_mr(pair.ends[0].mr) != 0) return 4;
              return in_process([&] { return static_cast<int>(buffer[0]); }) == 7 ? 0 : 5;
            }),
            0);
}

TEST_F(Fork, GivesChildrenTheirOwnCopiesWithoutIt) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED || !pair.open()) return 1;
              std::byte* const buffer = pair.ends[0].buffer;
              buffer[0] = std::byte{7};
              const int seen = in_process([&] {
                const int was = static_cast<int>(buffer[0]);
                buffer[0] = std::byte{9};
                return was;
              });
              return seen == 7 && buffer[0] == std::byte{7} ? 0 : 3;
            }),
            0);
}

/// Destroys the inherited objects, in any state in which the other threads of its parent left them.
int destroy_in_process(const Connected& pair) {
  return in_process([&] {
    ::alarm(static_cast<unsigned>(std::chrono::seconds(kEndPatience).count()));
    for (const End& end : pair.ends) {
      if (ibv_destroy_qp(end.qp) != 0) return 1;
    }
    for (const End& end : pair.ends) {
      ibv_wc wc;
      if (ibv_poll_cq(end.cq, 1, &wc) < 0 || ibv_destroy_cq(end.cq) != 0) return 2;
    }
    return 0;
  });
}

TEST_F(Fork, LeavesNoLockBehindThatAnotherThreadHad) {
  EXPECT_EQ(in_process([] {
              Connected pair;
              if (!pair.open()) return 10;
              std::atomic<bool> is_over = false;
              std::thread other([&] {
                const End& from = pair.ends[0];
                EndNotes to;
                pair.ends[1].tell(to, 1);
                while (!is_over) {
                  (void)End::post(from.qp, 0, IBV_WR_RDMA_WRITE, from.sge(0, 8), to);
                  ibv_wc wc[4];
                  for (const End& end : pair.ends) (void)ibv_poll_cq(end.cq, 4, wc);
                }
              });
              int worst = 0;
              for (int i = 0; i < 50 && worst == 0; ++i) worst = destroy_in_process(pair);
              is_over = true;
              other.join();
              return worst;
            }),
            0);
}

std::atomic<int> g_forks = 0;

/// A handler of fork(2) that is called when the library's own has taken its locks.
void give_another_thread_time_to_want_them() {
  ++g_forks;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

// The thread that forks is the favoured one of the adapter's lock, and another thread waits for the
// lock.
TEST_F(Fork, LeavesNoLockBehindThatAnotherThreadWanted) {
  EXPECT_EQ(in_process([] {
              if (::pthread_atfork(give_another_thread_time_to_want_them, nullptr, nullptr) != 0) {
                return 10;
              }
              Connected pair;
              if (!pair.open()) return 11;
              ibv_context* const context = pair.ends[0].cq->context;
              for (int i = 0; i < 200; ++i) {
                ibv_cq* const cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
                if (cq == nullptr || ibv_destroy_cq(cq) != 0) return 12;
              }
              const int before = g_forks;
              std::thread other([&] {
                while (g_forks == before) std::this_thread::yield();
                ibv_destroy_cq(ibv_create_cq(context, 1, nullptr, nullptr, 0));
              });
              const int result = destroy_in_process(pair);
              other.join();
              return result;
            }),
            0);
}

TEST_F(Fork, IsInitializedByTheEnvironmentToo) {
  for (const char* variable : {"RDMAV_FORK_SAFE", "IBV_FORK_SAFE"}) {
    EXPECT_EQ(in_process([&] {
                ::setenv(variable, "1", 1);
                Connected pair;
                if (!pair.open() || ibv_is_fork_initialized() != IBV_FORK_ENABLED) return 1;
                return is_kept_from_children(pair.ends[0].buffer) ? 0 : 2;
              }),
              0)
        << variable;
  }
}

}  // namespace
}  // namespace verbatim::testing
