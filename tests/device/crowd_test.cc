// SPDX-License-Identifier: Apache-2.0
// More threads that poll than processors: a thread that polls in vain gives its processor to the
// one that it waits for. The measure is a ping-pong of two processes that sleep in the kernel, on
// the same processor in the same run. Many such threads sleep in the kernel themselves.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "in_process.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

using Clock = std::chrono::steady_clock;

// The fastest round counts: other programs may use the processor in some of them.
constexpr int kRounds = 10;
constexpr int kTrips = 10;  // there and back, in a round
// Two threads that poll until the end of their time slices are a thousand times as slow as pipes.
constexpr int kTimesAsSlow = 50;

struct Notes {
  EndNotes first;
  EndNotes second;
  std::atomic<bool> has_failed{false};
  std::atomic<std::int64_t> processor_time{0};  // of both while they play, in nanoseconds
  std::atomic<long> sleeps{0};                  // of both threads that play
  int rounds = kRounds;
};

long sleeps_of_this_thread() {
  rusage used{};
  (void)::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

std::int64_t processor_time() {
  timespec used{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return used.tv_sec * std::int64_t{1'000'000'000} + used.tv_nsec;
}

/// This process and its children, with all their threads.
void stay_on_one_processor() {
  cpu_set_t allowed;
  (void)::sched_getaffinity(0, sizeof allowed, &allowed);
  std::size_t processor = 0;
  while (!CPU_ISSET(processor, &allowed)) ++processor;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

/// The shortest time that a round takes; negative: one has failed.
template <typename Round>
Clock::duration fastest(int rounds, Round&& round) {
  Clock::duration shortest = Clock::duration::max();
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    if (!round()) return Clock::duration(-1);
    shortest = std::min<Clock::duration>(shortest, Clock::now() - start);
  }
  return shortest;
}

constexpr std::uint32_t kOctets = 64;
constexpr std::uint64_t kSending = 1;
constexpr std::uint64_t kReceiving = 2;

bool send(const End& end, const EndNotes& other) {
  return End::post(end.qp, kSending, IBV_WR_SEND, end.sge(0, kOctets), other);
}

/// A round of the one that begins: each message leaves when the answer to the last one is there.
bool play(const End& end, const EndNotes& other) {
  for (int trip = 0; trip < kTrips; ++trip) {
    if (!send(end, other)) return false;
    for (int completions = 0; completions < 2; ++completions) {
      ibv_wc wc{};
      if (!end.collect(wc) || wc.status != IBV_WC_SUCCESS) return false;
      if (wc.wr_id == kReceiving && !end.receive(end.qp, kReceiving, end.sge(0, kOctets)))
        return false;
    }
  }
  return true;
}

/// Answers every message of all rounds. The completion of an answer may come after that of the next
/// message, whose packet acknowledges the answer.
bool answer(const End& end, const EndNotes& other, int messages) {
  int sent = 0;
  int received = 0;
  while (sent < messages || received < messages) {
    ibv_wc wc{};
    if (!end.collect(wc) || wc.status != IBV_WC_SUCCESS) return false;
    if (wc.wr_id == kSending) {
      ++sent;
      continue;
    }
    ++received;
    if (!end.receive(end.qp, kReceiving, end.sge(0, kOctets)) || !send(end, other)) return false;
  }
  return true;
}

/// What the one that begins has found.
struct Times {
  Clock::duration shortest{};  // of the rounds
  Clock::duration all{};
};

/// The one that answers wants no times.
int be_end(Notes& notes, Times* times) {
  const bool begins = times != nullptr;
  EndNotes& own = begins ? notes.first : notes.second;
  EndNotes& other = begins ? notes.second : notes.first;
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  for (int i = 0; i < 4; ++i) {
    if (!end.receive(end.qp, kReceiving, end.sge(0, kOctets))) return 2;
  }
  end.tell(own, 1);
  if (!await([&] { return other.ready >= 1; })) return 3;
  if (!end.connect(end.qp, other.number, {})) return 4;
  own.ready = 2;
  if (!await([&] { return other.ready == 2; })) return 5;
  const auto start = Clock::now();
  const std::int64_t used_before = processor_time();
  const long slept_before = sleeps_of_this_thread();
  if (begins) {
    times->shortest = fastest(notes.rounds, [&] { return play(end, other); });
    if (times->shortest < Clock::duration::zero()) return 7;
    times->all = Clock::now() - start;
  } else if (!answer(end, other, notes.rounds * kTrips)) {
    return 8;
  }
  notes.processor_time += processor_time() - used_before;
  notes.sleeps += sleeps_of_this_thread() - slept_before;
  own.ready = 3;  // not earlier: the end of a process ends the other's connection
  return await([&] { return other.ready == 3; }) ? 0 : 6;
}

/// The same over pipes.
Clock::duration time_of_pipes() {
  std::array<int, 2> there{};
  std::array<int, 2> back{};
  EXPECT_EQ(::pipe(there.data()), 0);
  EXPECT_EQ(::pipe(back.data()), 0);
  char octet = 0;
  const pid_t child = start_process([&] {
    for (int trip = 0; trip < kRounds * kTrips; ++trip) {
      if (::read(there[0], &octet, 1) != 1 || ::write(back[1], &octet, 1) != 1) return 1;
    }
    return 0;
  });
  const auto took = fastest(kRounds, [&] {
    for (int trip = 0; trip < kTrips; ++trip) {
      if (::write(there[1], &octet, 1) != 1 || ::read(back[0], &octet, 1) != 1) return false;
    }
    return true;
  });
  EXPECT_EQ(exit_status_of(child), 0);
  for (const int end : {there[0], there[1], back[0], back[1]}) ::close(end);
  return took;
}

constexpr int kProcessorWasShared = 77;

/// 0, kProcessorWasShared, or where it failed.
int compare_with_pipes() {
  stay_on_one_processor();
  Notes& notes = *share_with_children<Notes>();
  const pid_t second = start_process(notes.has_failed, [&] { return be_end(notes, nullptr); });
  Times times;
  if (const int failed = be_end(notes, &times); failed != 0) return failed;
  if (exit_status_of(second) != 0) return 21;
  const auto pipes = time_of_pipes();
  if (pipes <= Clock::duration::zero()) return 22;
  if (times.shortest < kTimesAsSlow * pipes) return 0;
  const bool was_shared = std::chrono::nanoseconds(notes.processor_time) < times.all * 9 / 10;
  std::printf("a round took %lld ns, over pipes %lld\n",
              static_cast<long long>(times.shortest.count()),
              static_cast<long long>(pipes.count()));
  return was_shared ? kProcessorWasShared : 23;
}

TEST(Crowd, TwoThreadsThatPollOnOneProcessorTakeTurns) {
  const int outcome = in_process(compare_with_pipes);
  if (outcome == kProcessorWasShared) {
    GTEST_SKIP() << "another program used the processor meanwhile, and got a time slice with "
                    "every yield";
  }
  EXPECT_EQ(outcome, 0);
}

/// 0, or where it failed.
int play_in_many_pairs() {
  constexpr int kPairs = 4;
  constexpr int kRoundsOfPair = 200;
  ::setenv("VERBATIM_PATH", "packet", 1);
  stay_on_one_processor();
  std::vector<Notes*> notes;
  std::vector<pid_t> processes;
  for (int i = 0; i < kPairs; ++i) {
    Notes& pair = *notes.emplace_back(share_with_children<Notes>());
    pair.rounds = kRoundsOfPair;
    processes.push_back(start_process(pair.has_failed, [&] { return be_end(pair, nullptr); }));
    processes.push_back(start_process(pair.has_failed, [&] {
      Times times;
      return be_end(pair, &times);
    }));
  }
  for (const pid_t process : processes) {
    if (const int failed = exit_status_of(process); failed != 0) return failed;
  }
  long sleeps = 0;
  for (const Notes* pair : notes) sleeps += pair->sleeps;
  constexpr long kMessages = 2L * kPairs * kRoundsOfPair * kTrips;
  std::fprintf(stderr, "%ld messages, %ld sleeps\n", kMessages, sleeps);
  return sleeps > kMessages / 8 ? 0 : 31;
}

/// Kernels before 5.11 have no wait in nanoseconds, and some sandboxes forbid it.
bool has_short_waits() {
  constexpr long kWaitCall = 441;  // epoll_pwait2
  return ::syscall(kWaitCall, -1, nullptr, 1, nullptr, nullptr, 0L) < 0 && errno == EBADF;
}

TEST(Crowd, ThreadsOfManyPairsSleepUntilTheirPacketsArrive) {
  if (!has_short_waits()) GTEST_SKIP() << "the system has no epoll_pwait2";
  EXPECT_EQ(in_process(play_in_many_pairs), 0);
}

}  // namespace
}  // namespace verbatim::testing
