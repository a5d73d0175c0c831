// SPDX-License-Identifier: Apache-2.0
// When a READ loads the memory of its peer: after the requests before it, after stores that its own
// program made before it was posted, and not later than its completion (IBA Vol 1, 9.5, 10.8.3.3).
// Processors that reorder stores and loads need fences for this. So these are litmus tests of
// memory models: two processes, one round after the other, each storing and then loading what the
// other has stored.
//
// Values are the number of the round: nothing has to be set back, and both processors have both
// places in their caches when a round begins, where an early load finds the old value. With a plain
// store and a plain load in the place of the requests more than half of the rounds end with neither
// having seen the other, on a Neoverse N1; with a fence between, none.
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kRoundsMax = 200'000;
constexpr std::chrono::milliseconds kTimeMax{800};  // of one test; packets take their time
constexpr std::uint32_t kOver = ~0U;
constexpr std::size_t kParties = 3;

/// Places in the buffer of each process, far enough from each other that no two share a cache line.
constexpr std::uint32_t kX = 0;
constexpr std::uint32_t kY = 1024;
constexpr std::uint32_t kLanding = 4096;
constexpr std::uint32_t kSource = 8192;

constexpr std::size_t kSlowLines = 48;  // as many stores as a processor may have under way

/// What the processes tell each other.
struct Notes {
  struct alignas(256) Counter {
    std::atomic<std::uint32_t> value{0};
  };
  EndNotes ends[kParties][kParties];  // of the one, for the other
  Counter connected;
  Counter arrived[2];  // the round that each is ready for
  Counter signal;
  Counter over;
  Counter slow_lines[2][kSlowLines];  // where each stores before it begins
  std::uint32_t rounds = 0;           // so far; this and the next one go with arrived[0]
  std::chrono::steady_clock::time_point start{};  // of the round
  std::uint64_t saw[2][kRoundsMax + 1];
};

/// One of the processes: connected to the others, each of which may do anything to its buffer.
class Party {
 public:
  Party(Notes& notes, unsigned self) : notes_(notes), self_(self), random_(self + 1) {}

  bool join() {
    take_processor();
    if (!end_.open()) return false;
    for (unsigned peer = 0; peer < kParties; ++peer) {
      if (peer == self_) continue;
      if (!end_.make_qp(&qps_[peer])) return false;
      end_.qp = qps_[peer];
      end_.tell(notes_.ends[self_][peer], 1);
    }
    for (unsigned peer = 0; peer < kParties; ++peer) {
      if (peer == self_) continue;
      if (!await([&] { return notes_.ends[peer][self_].ready != 0; })) return false;
      if (!end_.connect(qps_[peer], notes_.ends[peer][self_].number, {})) return false;
    }
    ++notes_.connected.value;
    return await([&] { return notes_.connected.value == kParties; });
  }
  /// Until both that race have done their rounds.
  bool await_end() {
    return await([&] { return notes_.over.value == 2; });
  }

  /// Both processes begin a round at the same time, or up to kJitter apart; false after the last
  /// one.
  bool begin(std::uint32_t round) {
    const bool goes_on = self_ == kLeader ? lead(round) : follow(round);
    const auto start = notes_.start + std::chrono::nanoseconds(random_() % kJitter.count());
    while (goes_on && Clock::now() < start) continue;
    return goes_on;
  }

  /// Stores that are slow, because the other processor has their cache lines; and no later store
  /// overtakes them. So the next store is late, and a load after it that does not wait is early.
  void store_slowly() {
    for (auto& line : notes_.slow_lines[self_]) line.value.store(1, std::memory_order_relaxed);
#if defined(__aarch64__)
    __asm__ __volatile__("dmb ishst" ::: "memory");
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
  }
  /// Takes the cache lines, so that the other process's stores are slow.
  void take_lines() {
    for (auto& line : notes_.slow_lines[1 - self_]) line.value.store(2, std::memory_order_relaxed);
  }

  void saw(std::uint32_t round, std::uint64_t value) { notes_.saw[self_][round] = value; }
  void signal(std::uint32_t round) { notes_.signal.value.store(round, std::memory_order_release); }
  bool await_signal(std::uint32_t round) {
    return spin([&] { return notes_.signal.value.load(std::memory_order_acquire) >= round; });
  }
  /// Waits until the round's number is written here; without an acquire.
  bool await_word(std::uint32_t at, std::uint32_t round) {
    return spin([&] { return word(at).load(std::memory_order_relaxed) >= round; });
  }

  /// Stores and loads by this process's own instructions.
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(std::uint32_t at) const {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(end_.buffer + at));
  }
  [[nodiscard]] std::byte* octets(std::uint32_t at) const { return end_.buffer + at; }

  bool post(ibv_wr_opcode opcode, unsigned peer, std::uint32_t here, std::uint32_t there,
            std::uint32_t octets = 8, unsigned flags = 0) {
    const EndNotes& to = notes_.ends[peer][self_];
    ibv_sge local = end_.sge(here, octets);
    ibv_send_wr request{};
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED | flags;
    request.sg_list = &local;
    request.num_sge = 1;
    request.wr.rdma = {.remote_addr = to.address + there, .rkey = to.rkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qps_[peer], &request, &bad) == 0;
  }
  bool complete(unsigned count) {
    for (; count > 0; --count) {
      ibv_wc wc{};
      if (!end_.collect(wc) || wc.status != IBV_WC_SUCCESS) return false;
    }
    return true;
  }
  /// Reads eight octets of the peer; the round is spoilt when that fails.
  std::uint64_t read(unsigned peer, std::uint32_t there) {
    if (!post(IBV_WR_RDMA_READ, peer, kLanding, there) || !complete(1)) return kFailed;
    return word(kLanding).load(std::memory_order_relaxed);
  }
  /// Writes the round's number to one place of the peer and reads another, the one behind the other
  /// without waiting.
  std::uint64_t write_and_read(unsigned peer, std::uint32_t round, std::uint32_t to,
                               std::uint32_t from) {
    word(kSource).store(round, std::memory_order_relaxed);
    const bool is_posted =
        post(IBV_WR_RDMA_WRITE, peer, kSource, to) && post(IBV_WR_RDMA_READ, peer, kLanding, from);
    return is_posted && complete(2) ? word(kLanding).load(std::memory_order_relaxed) : kFailed;
  }

  static constexpr std::uint64_t kFailed = ~std::uint64_t{0};

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kLeader = 0;
  static constexpr std::chrono::nanoseconds kRunUp{300};  // from the announcement to the start
  static constexpr std::chrono::nanoseconds kJitter{400};

  /// The two processes that race run on different processors if there are two: on one processor
  /// they do not run at the same time, and a round shows nothing.
  void take_processor() const {
    cpu_set_t allowed;
    if (self_ > 1 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    unsigned wanted = self_;
    for (unsigned processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(processor, &allowed) || wanted-- > 0) continue;
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(processor, &own);
      (void)::sched_setaffinity(0, sizeof own, &own);  // on failure the system chooses
      return;
    }
  }
  /// Waits for the other and says when to start.
  bool lead(std::uint32_t round) {
    if (round == 1) deadline_ = Clock::now() + kTimeMax;
    const bool is_enough = round > kRoundsMax || (round % 16 == 0 && Clock::now() > deadline_) ||
                           !spin([&] { return notes_.arrived[1].value >= round; });
    if (is_enough) return false;
    notes_.rounds = round;
    notes_.start = Clock::now() + kRunUp;
    notes_.arrived[0].value = round;
    return true;
  }
  bool follow(std::uint32_t round) {
    notes_.arrived[1].value = round;
    return spin([&] { return notes_.arrived[0].value >= round; }) && round <= notes_.rounds;
  }
  /// As await(), but without sleeping: the other is about to come, if it has a processor.
  template <typename Condition>
  static bool spin(Condition&& condition) {
    const auto end = std::chrono::steady_clock::now() + kEndPatience;
    for (std::uint32_t turns = 1; !condition(); ++turns) {
      if (turns % 1000 != 0) continue;
      if (std::chrono::steady_clock::now() > end) return false;
      ::sched_yield();
    }
    return true;
  }

  Notes& notes_;
  const unsigned self_;
  End end_;
  std::array<ibv_qp*, kParties> qps_{};
  std::minstd_rand random_;
  Clock::time_point deadline_;
};

constexpr unsigned kFirst = 0;  // the two that race
constexpr unsigned kSecond = 1;
constexpr unsigned kThird = 2;  // does nothing itself

class ReadOrder : public ::testing::Test {
 protected:
  using Body = std::function<bool(Party&)>;

  void SetUp() override {
    // With VERBATIM_PATH=direct the path is direct, or there is no connection.
    const char* path = std::getenv("VERBATIM_PATH");
    const bool is_packet = path != nullptr && std::strcmp(path, "packet") == 0;
    if (!is_packet) ::setenv("VERBATIM_PATH", "direct", 1);
  }
  void TearDown() override { ::munmap(&notes_, sizeof notes_); }

  /// Runs the two bodies, each in a process of its own, beside a third process.
  void run(const Body& first, const Body& second) {
    std::array<pid_t, kParties> pids{};
    for (unsigned self = 0; self < kParties; ++self) {
      std::fflush(nullptr);
      pids[self] = ::fork();
      ASSERT_GE(pids[self], 0);
      if (pids[self] == 0) ::_exit(be(self, self == kFirst ? first : second));
    }
    for (const pid_t pid : pids) {
      int status = 0;
      ASSERT_EQ(::waitpid(pid, &status, 0), pid);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
  }
  int be(unsigned self, const Body& body) {
    Party party(notes_, self);
    if (!party.join()) return 1;
    const bool is_well = self == kThird || body(party);
    if (self != kThird) {
      notes_.arrived[self].value = kOver;  // also when it has failed
      ++notes_.over.value;
    }
    // A process that ends early takes its memory away from the others.
    return party.await_end() && is_well ? 0 : 2;
  }

  /// In each round one of the two, at least, has seen what the other stored.
  void expect_that_one_saw_the_other() {
    std::uint32_t both = 0;
    std::uint32_t none = 0;
    for (std::uint32_t round = 1; round <= notes_.rounds; ++round) {
      const std::uint64_t one = notes_.saw[0][round];
      const std::uint64_t other = notes_.saw[1][round];
      ASSERT_TRUE(one <= round && other <= round) << round;  // or it has failed
      both += one == round && other == round ? 1 : 0;
      none += one < round && other < round ? 1 : 0;
    }
    std::printf("%u rounds; in %u both saw the other, in %u neither\n", notes_.rounds, both, none);
    EXPECT_GT(notes_.rounds, 0U);
    EXPECT_EQ(none, 0U) << "a READ looked before something that came before it was there";
  }

  Notes& notes_ = *share_with_children<Notes>();
};

TEST_F(ReadOrder, AReadSeesWhatTheWritesBeforeItStored) {
  const auto first = [](Party& party) {
    std::mt19937 random(1);
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      const auto octets = static_cast<std::uint32_t>(1 + random() % (round % 8 == 0 ? 32'000 : 64));
      const auto at = static_cast<std::uint32_t>(random() % 8 * 8);
      std::byte* source = party.octets(kSource);
      for (std::uint32_t i = 0; i < octets; ++i) source[i] = std::byte(random());
      std::byte* landing = party.octets(64 * 1024);
      if (!party.post(IBV_WR_RDMA_WRITE, kThird, kSource, at, octets) ||
          !party.post(IBV_WR_RDMA_READ, kThird, 64 * 1024, at, octets) || !party.complete(2)) {
        return false;
      }
      if (std::memcmp(source, landing, octets) != 0) return false;
    }
    return true;
  };
  run(first, [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round);) ++round;
    return true;
  });
  EXPECT_GT(notes_.rounds, 0U);
}

TEST_F(ReadOrder, AReadSeesNothingOfAWriteThatWaitsForIt) {
  const auto first = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      party.word(kSource).store(round, std::memory_order_relaxed);
      if (!party.post(IBV_WR_RDMA_READ, kThird, kLanding, kX) ||
          !party.post(IBV_WR_RDMA_WRITE, kThird, kSource, kX, 8, IBV_SEND_FENCE) ||
          !party.complete(2)) {
        return false;
      }
      if (party.word(kLanding).load(std::memory_order_relaxed) != round - 1) return false;
    }
    return true;
  };
  run(first, [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round);) ++round;
    return true;
  });
  EXPECT_GT(notes_.rounds, 0U);
}

TEST_F(ReadOrder, AReadLooksBehindTheWriteBeforeIt) {
  // Both places are in a third process: WRITE the one and READ the other, and the reverse.
  const auto race = [](std::uint32_t mine, std::uint32_t theirs) {
    return [=](Party& party) {
      for (std::uint32_t round = 1; party.begin(round); ++round) {
        party.store_slowly();
        party.saw(round, party.write_and_read(kThird, round, mine, theirs));
        party.take_lines();
      }
      return true;
    };
  };
  run(race(kX, kY), race(kY, kX));
  expect_that_one_saw_the_other();
}

TEST_F(ReadOrder, AReadLooksBehindTheWriteBeforeItAsTheTargetsProcessorSeesIt) {
  const auto first = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      party.store_slowly();
      party.saw(round, party.write_and_read(kSecond, round, kX, kY));
    }
    return true;
  };
  const auto second = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      party.word(kY).store(round, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      party.saw(round, party.word(kX).load(std::memory_order_relaxed));
      party.take_lines();
    }
    return true;
  };
  run(first, second);
  expect_that_one_saw_the_other();
}

TEST_F(ReadOrder, AReadLooksBehindWhatItsProgramStoredBefore) {
  const auto race = [](unsigned peer) {
    return [=](Party& party) {
      for (std::uint32_t round = 1; party.begin(round); ++round) {
        party.store_slowly();
        party.word(kX).store(round, std::memory_order_relaxed);
        party.saw(round, party.read(peer, kX));
        party.take_lines();
      }
      return true;
    };
  };
  run(race(kSecond), race(kFirst));
  expect_that_one_saw_the_other();
}

TEST_F(ReadOrder, AReadLooksBehindTheReadThatCompletedBefore) {
  // The second stores the data and then the flag: a READ that finds the new flag must find the new
  // data.
  const auto first = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      const std::uint64_t flag = party.read(kSecond, kY);
      const std::uint64_t data = party.read(kSecond, kX);
      if (flag == Party::kFailed || data == Party::kFailed || data < flag) return false;
    }
    return true;
  };
  const auto second = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      party.word(kX).store(round, std::memory_order_relaxed);
      party.word(kY).store(round, std::memory_order_release);
    }
    return true;
  };
  run(first, second);
  EXPECT_GT(notes_.rounds, 0U);
}

TEST_F(ReadOrder, AReadLooksBehindWhatItsProgramSawBefore) {
  // The second stores the data and tells the first, which waits for that without an acquire. With
  // hardware, posting is a store to the device, which the processor orders after what it has
  // loaded.
  const auto first = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      if (!party.await_word(kY, round)) return false;
      const std::uint64_t data = party.read(kSecond, kX);
      if (data != round) return false;
    }
    return true;
  };
  const auto second = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      party.word(kX).store(round, std::memory_order_relaxed);
      party.word(kSource).store(round, std::memory_order_relaxed);
      if (!party.post(IBV_WR_RDMA_WRITE, kFirst, kSource, kY) || !party.complete(1)) return false;
    }
    return true;
  };
  run(first, second);
  EXPECT_GT(notes_.rounds, 0U);
}

TEST_F(ReadOrder, AReadThatHasCompletedSeesNothingMore) {
  const auto first = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      const std::uint64_t seen = party.read(kSecond, kX);
      party.signal(round);  // from now on the second may store
      if (seen != round - 1) return false;
    }
    return true;
  };
  const auto second = [](Party& party) {
    for (std::uint32_t round = 1; party.begin(round); ++round) {
      if (!party.await_signal(round)) return false;
      party.word(kX).store(round, std::memory_order_relaxed);
    }
    return true;
  };
  run(first, second);
  EXPECT_GT(notes_.rounds, 0U);
}

}  // namespace
}  // namespace verbatim::testing
