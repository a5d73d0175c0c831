// SPDX-License-Identifier: Apache-2.0
// A process that is killed at any point: other processes lose a peer and nothing else, are told
// soon, and the next process finds nothing left over.
//
// VERBATIM_STRESS=1 in the environment makes it 2000 deaths of each kind instead of 25,
// VERBATIM_STRESS_ROUNDS as many as it says, and VERBATIM_SEED repeats what happened.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kSendOctets = 3000;
constexpr std::uint32_t kReceiveOctets = 4096;
constexpr std::uint32_t kReceivesAt = 64 * 1024;

/// The resources of a process that runs for long.
struct Belongings {
  long descriptors = 0;
  long mappings = 0;
  long resident_pages = 0;

  static Belongings now() {
    Belongings found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      (void)entry;
      ++found.descriptors;
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) ++found.mappings;
    std::ifstream statm("/proc/self/statm");
    long total = 0;
    statm >> total >> found.resident_pages;
    return found;
  }
};

struct Notes {
  EndNotes survivor;
  EndNotes victim;
  std::atomic<std::uint32_t> connected{0};  // the victim is, in this round
  std::atomic<std::uint32_t> survivor_connected{0};
  std::atomic<std::uint32_t> killed{0};
  std::atomic<std::int64_t> killed_at{0};  // CLOCK_MONOTONIC
  std::atomic<std::uint32_t> over{0};      // the survivor has handled the death
  std::atomic<std::int64_t> longest{0};    // until the survivor heard of a death, nanoseconds
  std::atomic<std::uint32_t> heard{0};
  Belongings early;
  Belongings late;
};

std::int64_t monotonic() {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * std::int64_t{1'000'000'000} + at.tv_nsec;
}

bool goes_through_packets() {
  const char* path = std::getenv("VERBATIM_PATH");
  return path != nullptr && std::strcmp(path, "packet") == 0;
}

/// A connection to a process that is slow to answer would use packets, where its end may not be
/// noticed. With VERBATIM_PATH=direct the connection is tried again instead.
void insist_on_the_direct_path() {
  if (!goes_through_packets()) ::setenv("VERBATIM_PATH", "direct", 1);
}

std::uint32_t wanted_rounds() {
  if (const char* rounds = std::getenv("VERBATIM_STRESS_ROUNDS")) {
    return static_cast<std::uint32_t>(std::atoi(rounds));
  }
  return std::getenv("VERBATIM_STRESS") != nullptr ? 2000 : 25;
}

/// Posts one request after the other until one fails; its status, or less than 0 for none.
int send_until_failure(End& end, const EndNotes& to, std::mt19937_64& random) {
  constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
                                        IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND};
  for (;;) {
    const ibv_wr_opcode opcode = kOpcodes[random() % std::size(kOpcodes)];
    const bool is_long = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_READ;
    if (opcode == IBV_WR_SEND) std::memset(end.buffer, static_cast<int>(random()), kSendOctets);
    const std::uint32_t octets = is_long ? kReceivesAt : opcode == IBV_WR_SEND ? kSendOctets : 8;
    const int status = end.run(opcode, to, octets);
    if (status != IBV_WC_SUCCESS) return status;
  }
}

/// Whether one whole message was received.
bool is_whole(const End& end, const ibv_wc& wc) {
  const std::byte* at = end.buffer + kReceivesAt + wc.wr_id % End::kDepth * kReceiveOctets;
  return wc.byte_len == kSendOctets &&
         std::all_of(at, at + kSendOctets, [&](std::byte octet) { return octet == *at; });
}

bool connect_both(End& end, EndNotes& own, const EndNotes& other, std::uint32_t round,
                  const End::Timing& timing) {
  end.tell(own, round);
  return await([&] { return other.ready == round; }) &&
         await([&] { return end.connect(end.qp, other.number, timing); });
}

// ---- The initiator dies ----

int be_victim_that_sends(Notes& notes, std::uint32_t round, std::uint64_t seed) {
  insist_on_the_direct_path();
  std::mt19937_64 random(seed);
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  if (!connect_both(end, notes.victim, notes.survivor, round, {})) return 2;
  notes.connected = round;
  (void)send_until_failure(end, notes.survivor, random);
  return 3;
}

/// Receives from one initiator after the other. Every receive ends once.
int be_surviving_target(Notes& notes, std::uint32_t rounds) {
  insist_on_the_direct_path();
  End end;
  if (!end.open() || !end.make_srq()) return 1;
  std::uint64_t next_id = 1;
  std::set<std::uint64_t> posted;
  const auto post = [&] {
    const auto place = static_cast<std::uint32_t>(next_id % End::kDepth);
    posted.insert(next_id);
    return end.receive(end.qp, next_id++,
                       end.sge(kReceivesAt + place * kReceiveOctets, kReceiveOctets));
  };
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    const bool is_shared = round % 3 == 0;
    if (!end.make_qp(&end.qp, is_shared)) return 2;
    while (posted.size() < End::kDepth) {
      if (!post()) return 3;
    }
    if (!connect_both(end, notes.survivor, notes.victim, round, {})) return 4;
    notes.survivor_connected = round;
    ibv_wc wc{};
    while (notes.killed < round) {
      if (ibv_poll_cq(end.cq, 1, &wc) != 1) continue;
      if (wc.status != IBV_WC_SUCCESS || posted.erase(wc.wr_id) != 1) return 5;
      if (!is_whole(end, wc)) return 6;
      if (!post()) return 7;
    }
    if (!End::to_state(end.qp, IBV_QPS_ERR)) return 8;
    while (is_shared ? ibv_poll_cq(end.cq, 1, &wc) == 1 : !posted.empty()) {
      if (!is_shared && !end.collect(wc)) return 9;
      if (posted.erase(wc.wr_id) != 1) return 10;
      if (wc.status == IBV_WC_SUCCESS && !is_whole(end, wc)) return 11;
    }
    if (ibv_destroy_qp(end.qp) != 0) return 12;
    if (is_shared) {  // a queue of the next round's own has other receives
      if (ibv_destroy_srq(end.srq) != 0 || !end.make_srq()) return 13;
      posted.clear();
    }
    if (round == std::min(rounds, 12U)) notes.early = Belongings::now();
    notes.over = round;
  }
  notes.late = Belongings::now();
  return 0;
}

// ---- The target dies ----

int be_victim_that_receives(Notes& notes, std::uint32_t round) {
  insist_on_the_direct_path();
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  for (std::uint32_t i = 0; i < End::kDepth; ++i) {
    if (!end.receive(end.qp, i, end.sge(kReceivesAt + i * kReceiveOctets, kReceiveOctets))) {
      return 2;
    }
  }
  if (!connect_both(end, notes.victim, notes.survivor, round, {})) return 3;
  notes.connected = round;
  for (std::uint64_t id = 0;;) {  // it is killed here
    ibv_wc wc{};
    if (ibv_poll_cq(end.cq, 1, &wc) != 1) continue;
    const auto place = static_cast<std::uint32_t>(id++ % End::kDepth);
    if (!end.receive(end.qp, id, end.sge(kReceivesAt + place * kReceiveOctets, kReceiveOctets))) {
      return 4;
    }
  }
}

/// Sends to one target after the other, and notices the end of each.
int be_surviving_initiator(Notes& notes, std::uint32_t rounds, std::uint64_t seed) {
  insist_on_the_direct_path();
  std::mt19937_64 random(seed);
  End end;
  if (!end.open()) return 1;
  for (std::uint32_t round = 1; round <= rounds; ++round) {
    if (!end.make_qp(&end.qp)) return 2;
    End::Timing timing;
    // Then a missing answer alone is never a failure; with packets there is no other sign.
    if (round % 2 == 0 && !goes_through_packets()) timing.timeout = 0;
    if (!connect_both(end, notes.survivor, notes.victim, round, timing)) return 3;
    notes.survivor_connected = round;
    if (send_until_failure(end, notes.victim, random) != IBV_WC_RETRY_EXC_ERR) return 4;
    if (!await([&] { return notes.killed >= round; })) return 5;
    const std::int64_t took = monotonic() - notes.killed_at;
    notes.longest = std::max<std::int64_t>(notes.longest, took);
    notes.heard = round;
    if (ibv_destroy_qp(end.qp) != 0) return 6;
    if (round == std::min(rounds, 12U)) notes.early = Belongings::now();
    notes.over = round;
  }
  notes.late = Belongings::now();
  return 0;
}

// ---- The test ----

class KilledPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* seed = std::getenv("VERBATIM_SEED");
    seed_ = seed != nullptr ? std::strtoull(seed, nullptr, 0) : std::random_device{}();
    random_.seed(seed_);
  }

  /// One survivor, and victims that are killed one after the other, each a moment after it has
  /// connected.
  template <typename Survivor, typename Victim>
  void run(Survivor&& survivor, Victim&& victim) {
    const std::uint32_t rounds = wanted_rounds();
    const pid_t living = ::fork();
    if (living == 0) ::_exit(survivor(notes_, rounds));
    for (std::uint32_t round = 1; round <= rounds && !HasFailure(); ++round) {
      const pid_t dying = ::fork();
      if (dying == 0) ::_exit(victim(notes_, round));
      EXPECT_TRUE(await([&] {
        return notes_.connected == round && notes_.survivor_connected == round;
      })) << "round "
          << round;
      ::usleep(static_cast<useconds_t>(random_() % 3000));
      notes_.killed_at = monotonic();
      EXPECT_EQ(::kill(dying, SIGKILL), 0);
      int status = 0;
      EXPECT_EQ(::waitpid(dying, &status, 0), dying);
      EXPECT_TRUE(WIFSIGNALED(status)) << "it had ended before, with " << WEXITSTATUS(status);
      notes_.killed = round;
      EXPECT_TRUE(await([&] { return notes_.over == round; })) << "the survivor hangs: " << round;
    }
    if (HasFailure()) ::kill(living, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(living, &status, 0), living);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "the survivor says " << WEXITSTATUS(status) << ", signal " << WTERMSIG(status)
        << ", VERBATIM_SEED=" << seed_;
    std::printf("%u deaths; descriptors %ld then %ld, mappings %ld then %ld, pages %ld then %ld\n",
                rounds, notes_.early.descriptors, notes_.late.descriptors, notes_.early.mappings,
                notes_.late.mappings, notes_.early.resident_pages, notes_.late.resident_pages);
    expect_no_growth();
    expect_clean_house();
  }

  void expect_no_growth() const {
    EXPECT_LE(notes_.late.descriptors, notes_.early.descriptors + 4);
    EXPECT_LE(notes_.late.mappings, notes_.early.mappings + 16);
    EXPECT_LE(notes_.late.resident_pages, notes_.early.resident_pages + 1024);
  }

  /// No name is in use any more, and the next process gets the first slot.
  static void expect_clean_house() {
    std::ifstream names("/proc/net/unix");
    for (std::string line; std::getline(names, line);) {
      EXPECT_EQ(line.find("verbatim"), std::string::npos) << line;
    }
    const pid_t next = ::fork();
    if (next == 0) {
      End end;
      if (!end.open() || !end.make_qp(&end.qp)) ::_exit(100);
      ::_exit(static_cast<int>(end.qp->qp_num >> 16));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(next, &status, 0), next);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }

  Notes& notes_ = *share_with_children<Notes>();
  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

TEST_F(KilledPeer, AsAnInitiatorLeavesItsTargetWhole) {
  run([](Notes& notes, std::uint32_t rounds) { return be_surviving_target(notes, rounds); },
      [&](Notes& notes, std::uint32_t round) {
        return be_victim_that_sends(notes, round, seed_ + round);
      });
}

TEST_F(KilledPeer, AsATargetIsNoticedByItsInitiator) {
  run([&](Notes& notes,
          std::uint32_t rounds) { return be_surviving_initiator(notes, rounds, seed_); },
      [](Notes& notes, std::uint32_t round) { return be_victim_that_receives(notes, round); });
  const double seconds = static_cast<double>(notes_.longest) / 1e9;
  std::printf("the longest until a death was heard of: %.3f s\n", seconds);
  EXPECT_LT(seconds, 20.0);  // on a machine that does other things as well
}

}  // namespace
}  // namespace verbatim::testing
