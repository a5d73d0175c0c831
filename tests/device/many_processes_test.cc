// SPDX-License-Identifier: Apache-2.0
// Many processes of one user on one address: each exchanges data with all others. Half of them are
// killed meanwhile, some are stopped for a while, and others start in the slots of the killed ones.
//
// VERBATIM_STRESS=1 in the environment makes it 64 processes instead of 12, and
// VERBATIM_STRESS_SECONDS=3600 an hour of traffic over a bad network instead of three seconds.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <numeric>
#include <random>

#include "all_to_all.h"

namespace verbatim::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kStallPatience{60};  // within which every process makes progress

std::size_t lines_with(const char* path, const std::string& text) {
  std::ifstream file(path);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find(text) != std::string::npos) ++count;
  }
  return count;
}

void pause_for(milliseconds time) { (void)::poll(nullptr, 0, static_cast<int>(time.count())); }

class ManyProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board = new (memory) Board;
    pids.resize(kProcessesMax);
    const char* seed = std::getenv("VERBATIM_SEED");
    const auto number = seed != nullptr ? std::strtoul(seed, nullptr, 10) : std::random_device()();
    random.seed(number);
    board->seed = number;
    std::printf("VERBATIM_SEED=%lu\n", number);
  }
  void TearDown() override {
    for (const pid_t pid : pids) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    ::munmap(board, sizeof(Board));
    EXPECT_EQ(lines_with("/proc/net/udp", ":12B7 "), 0U) << "sockets of port 4791";
    EXPECT_EQ(lines_with("/proc/net/unix", "verbatim"), 0U) << "names";
  }

  /// Starts process `index` of those from `first` to `last`, as an ordinary user where possible.
  void start(std::uint32_t index, std::uint32_t first, std::uint32_t last) {
    std::fflush(nullptr);
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid != 0) {
      pids[index] = pid;
      return;
    }
    const rlimit limit{.rlim_cur = 1024, .rlim_max = 1024};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(2);
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    const std::string failure = Worker(*board, index, first, last).run();
    if (!failure.empty()) std::fprintf(stderr, "%s\n", failure.c_str());
    ::_exit(failure.empty() ? 0 : 1);
  }
  void kill(std::uint32_t index) {
    ASSERT_EQ(::kill(pids[index], SIGKILL), 0);
    ASSERT_EQ(::waitpid(pids[index], nullptr, 0), pids[index]);
    pids[index] = 0;
  }
  void expect_success(std::uint32_t index) {
    int status = -1;
    ASSERT_EQ(::waitpid(pids[index], &status, 0), pids[index]);
    pids[index] = 0;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "process " << index;
  }
  milliseconds random_time(std::uint32_t most) {
    return milliseconds(std::uniform_int_distribution<std::uint32_t>(0, most)(random));
  }
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t index, std::uint32_t peer) const {
    return board->entries[index].numbers[peer] >> 16;
  }
  void wait_until_ready(std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last; ++i) {
      for (int tries = 0; tries < 60'000 && !board->entries[i].is_ready.load(); ++tries) {
        pause_for(milliseconds(1));
      }
      ASSERT_TRUE(board->entries[i].is_ready.load()) << "process " << i;
    }
  }

  Board* board = nullptr;
  std::vector<pid_t> pids;
  std::mt19937 random;
};

TEST_F(ManyProcesses, SurviveTheDeathOfHalfOfThem) {
  const std::uint32_t count = std::getenv("VERBATIM_STRESS") != nullptr ? 64 : 12;
  const std::uint32_t span_ms = count * 60;  // of the deaths
  std::vector<std::uint32_t> victims;
  for (std::uint32_t i = 0; i < count; ++i) {
    board->entries[i].is_victim = i % 2 == 0;
    if (i % 2 == 0) victims.push_back(i);
  }
  for (std::uint32_t i = 0; i < count; ++i) start(i, 0, count);

  // Processes are killed while others start, connect and transfer; meanwhile some are stopped.
  std::shuffle(victims.begin(), victims.end(), random);
  std::uint32_t killed = 0;
  for (const std::uint32_t victim : victims) {
    pause_for(random_time(2 * span_ms / static_cast<std::uint32_t>(victims.size())));
    const std::uint32_t stopped = (killed * 2 + 1) % count;  // a process that is not killed
    const bool stops = killed++ % 3 == 0;
    if (stops) ::kill(pids[stopped], SIGSTOP);
    kill(victim);
    if (!stops) continue;
    pause_for(random_time(300));
    ::kill(pids[stopped], SIGCONT);
  }
  for (std::uint32_t i = 1; i < count; i += 2) wait_until_ready(i, i + 1);

  // As many new processes take the slots of the killed ones, and exchange data with each other.
  const std::uint32_t last = count + count / 2;
  for (std::uint32_t i = count; i < last; ++i) start(i, count, last);
  wait_until_ready(count, last);
  std::vector<bool> is_taken(256);
  for (std::uint32_t i = 1; i < count; i += 2) is_taken[slot_of(i, (i + 1) % count)] = true;
  for (std::uint32_t i = count; i < last; ++i) {
    const std::uint32_t slot = slot_of(i, i + 1 < last ? i + 1 : count);
    EXPECT_LT(slot, count) << "a place of the dead";
    EXPECT_FALSE(is_taken[slot]) << "two processes in one place";
    is_taken[slot] = true;
  }

  board->is_enough.store(true);
  std::uint64_t rounds = 0;
  for (std::uint32_t i = 0; i < last; ++i) {
    if (board->entries[i].is_victim) continue;
    expect_success(i);
    rounds += board->entries[i].rounds.load();
  }
  std::printf("%u processes, %llu rounds\n", last, static_cast<unsigned long long>(rounds));
}

TEST_F(ManyProcesses, WaitForStoppedProcesses) {
  constexpr std::uint32_t kCount = 6;
  for (std::uint32_t i = 0; i < kCount; ++i) start(i, 0, kCount);
  wait_until_ready(0, kCount);
  for (int turn = 0; turn < 5; ++turn) {
    std::array<std::uint32_t, kCount> order{};
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    const auto [one, other] = std::pair(order[0], order[1]);
    for (const std::uint32_t index : {one, other}) ::kill(pids[index], SIGSTOP);
    pause_for(random_time(200));
    for (const std::uint32_t index : {one, other}) ::kill(pids[index], SIGCONT);
    pause_for(random_time(50));
  }
  board->is_enough.store(true);
  for (std::uint32_t i = 0; i < kCount; ++i) expect_success(i);
}

TEST_F(ManyProcesses, KeepTheirDataWholeOverABadNetwork) {
  constexpr std::uint32_t kCount = 6;
  const char* wanted = std::getenv("VERBATIM_STRESS_SECONDS");
  const std::chrono::seconds time(wanted != nullptr ? std::strtol(wanted, nullptr, 10) : 3);
  const std::string faults = "seed=" + std::to_string(random() % 1000) +
                             "; both drop 1%; out duplicate 1%; out reorder 1%; in corrupt 0.3%; "
                             "out delay 50us..500us 1%";
  ASSERT_EQ(::setenv("VERBATIM_FAULTS", faults.c_str(), 1), 0);
  board->area_octets = 150'000;  // more than one train
  for (std::uint32_t i = 0; i < kCount; ++i) start(i, 0, kCount);
  ::unsetenv("VERBATIM_FAULTS");
  wait_until_ready(0, kCount);
  const auto end = std::chrono::steady_clock::now() + time;
  std::array<std::uint64_t, kCount> before{};
  while (std::chrono::steady_clock::now() + kStallPatience < end) {
    pause_for(kStallPatience);
    for (std::uint32_t i = 0; i < kCount; ++i) {
      const std::uint64_t rounds = board->entries[i].rounds.load();
      ASSERT_GT(rounds, before[i]) << "process " << i << " does not get on";
      before[i] = rounds;
    }
  }
  const auto left =
      std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
  pause_for(std::max(left, milliseconds(0)));
  board->is_enough.store(true);
  std::uint64_t rounds = 0;
  std::uint64_t datagrams = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    expect_success(i);
    rounds += board->entries[i].rounds.load();
    datagrams += board->entries[i].datagrams.load();
  }
  std::printf("%s: %llu rounds, %llu datagrams\n", faults.c_str(),
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(datagrams));
  EXPECT_GT(rounds, 0U);
  EXPECT_GT(datagrams, 0U);
}

}  // namespace
}  // namespace verbatim::testing
