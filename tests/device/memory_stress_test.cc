// SPDX-License-Identifier: Apache-2.0
// Registered memory moves to where peers can map it, and the program must not notice: programs do
// at random all that they may do with memory, alone and with several threads, and compare every
// octet with a model. No system call may fail with EFAULT. And memory must have moved.
//
// Each round is a process of its own. VERBATIM_STRESS_SEED repeats a round, VERBATIM_STRESS_SECONDS
// makes as many rounds as fit into that time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/test_cancelled_thread.h"
#include "memory_actor.h"
#include "raw_ring.h"

namespace verbatim::testing {
namespace {

constexpr int kRounds = 8;
constexpr int kPhases = 3;  // of each kind in a round
constexpr int kDeedsAlone = 60;
constexpr int kDeedsOfThread = 60;
constexpr unsigned kThreads = 3;
constexpr unsigned kPatienceSeconds = 240;  // for one round, whatever else the machine does

bool goes_through_packets() {
  const char* path = std::getenv("VERBATIM_PATH");
  return path != nullptr && std::strcmp(path, "packet") == 0;
}

/// A thread of the program. It may be cancelled, and its actor be given to another.
struct Performer {
  StressBoard* board = nullptr;
  std::unique_ptr<MemoryActor> actor;
  pthread_t thread{};
  std::atomic<int> left{0};  // deeds
  bool is_running = false;

  static void* perform(void* performer) {
    auto& self = *static_cast<Performer*>(performer);
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    test::expect_cancellation();
    while (self.left.fetch_sub(1) > 0 && !self.board->is_over()) {
      self.actor->act(false);
      if (self.actor->prng().one_in(8)) self.actor->receive_or_die();
      ::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
      ::pthread_testcancel();
      ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    }
    return nullptr;
  }
  bool start() {
    is_running = ::pthread_create(&thread, nullptr, &Performer::perform, this) == 0;
    return is_running;
  }
  [[nodiscard]] bool is_done() const { return left.load() < 0; }
};

/// A program: phases in which it has one thread alternate with phases in which it has several.
class Program {
 public:
  Program(StressBoard& board, const char* file, std::uint64_t seed) : board_(board), prng_(seed) {
    stage_.board = &board;
    stage_.file = file;
    stage_.end = &end_;
  }

  void run() {
    if (!stage_.fresh.reserve() || !end_.open()) return board_.fail("the device does not open");
    soloist_ = std::make_unique<MemoryActor>(stage_, 0, prng_.next());
    soloist_->open();
    for (unsigned i = 0; i < kThreads; ++i) {
      performers_[i].board = &board_;
      performers_[i].actor = std::make_unique<MemoryActor>(stage_, i + 1, prng_.next());
      performers_[i].actor->open();
    }
    for (int phase = 0; phase < kPhases && !board_.is_over(); ++phase) {
      act_alone();
      check_all();
      if (!board_.is_over()) act_together();
      check_all();
    }
    if (!board_.is_over()) close();
  }

 private:
  void check_all() {
    soloist_->check_all();
    for (Performer& performer : performers_) performer.actor->check_all();
  }

  /// Every actor, one after the other, on the one thread.
  void act_alone() {
    for (int deeds = 0; deeds < kDeedsAlone && !board_.is_over(); ++deeds) {
      const std::uint64_t who = prng_.below(kThreads + 1);
      (who == kThreads ? *soloist_ : *performers_[who].actor).act(true);
    }
  }

  void act_together() {
    for (Performer& performer : performers_) {
      performer.left.store(kDeedsOfThread);
      if (!performer.start()) board_.fail("no thread");
    }
    while (!is_done() && !board_.is_over()) {
      switch (prng_.below(8)) {
        case 0:
          cancel_one();
          break;
        case 1:
          soloist_->act(false);
          break;
        default:
          overlay_one();
      }
      wake_waiting();
    }
    for (Performer& performer : performers_) {
      while (performer.is_running && !performer.is_done() && !board_.is_over()) wake_waiting();
      if (board_.is_over()) ::_exit(1);  // threads may wait for ever
      if (::pthread_join(performer.thread, nullptr) != 0) board_.fail("pthread_join");
      performer.is_running = false;
    }
  }
  bool is_done() {
    for (const Performer& performer : performers_) {
      if (!performer.is_done()) return false;
    }
    return true;
  }
  void wake_waiting() {
    for (Performer& performer : performers_) {
      if (performer.actor->is_waiting()) performer.actor->send_what_is_awaited();
    }
  }

  /// Another thread takes over the actor of the cancelled one.
  void cancel_one() {
    Performer& performer = performers_[prng_.below(kThreads)];
    if (performer.is_done()) return;
    void* result = nullptr;
    if (::pthread_cancel(performer.thread) != 0) board_.fail("pthread_cancel");
    if (::pthread_join(performer.thread, &result) != 0) board_.fail("pthread_join");
    if (result == PTHREAD_CANCELED) ++board_.cancelled;
    performer.actor->note_cancelled();
    if (result != PTHREAD_CANCELED) performer.left.store(0);  // it had come to its end
    if (!performer.start()) board_.fail("no thread");
  }

  /// Registers and deregisters memory that another thread uses, and may unmap meanwhile.
  void overlay_one() {
    const std::uintptr_t at = performers_[prng_.below(kThreads)].actor->shown();
    const std::size_t octets = (1 + prng_.below(8)) * page_octets() - prng_.below(2) * 100;
    ibv_mr* mr = ibv_reg_mr(end_.pd, reinterpret_cast<void*>(at), octets, End::kAllAccess);
    if (mr == nullptr) {
      if (errno != EFAULT) board_.fail("ibv_reg_mr");  // EFAULT: it is not mapped any longer
      return;
    }
    if (prng_.one_in(2)) ::usleep(static_cast<useconds_t>(prng_.below(300)));
    if (ibv_dereg_mr(mr) != 0) board_.fail("ibv_dereg_mr");
    ++board_.overlaid;
  }

  void close() {
    soloist_->close();
    for (Performer& performer : performers_) performer.actor->close();
    if (ibv_dereg_mr(end_.mr) != 0 || ibv_destroy_cq(end_.cq) != 0 ||
        ibv_dealloc_pd(end_.pd) != 0 || ibv_close_device(end_.context) != 0) {
      board_.fail("the device does not close");
    }
  }

  StressBoard& board_;
  Prng prng_;
  End end_;
  Stage stage_;
  std::unique_ptr<MemoryActor> soloist_;
  std::array<Performer, kThreads> performers_;
};

/// A program in which one thread registers memory that the kernel fills for other threads.
class FillingProgram {
 public:
  FillingProgram(StressBoard& board, const char* file, std::uint64_t seed)
      : board_(board), prng_(seed) {
    stage_.board = &board;
    stage_.file = file;
    stage_.end = &end_;
  }

  void run() {
    if (!stage_.fresh.reserve() || !end_.open()) return board_.fail("the device does not open");
    MemoryActor actor(stage_, 0, prng_.next());
    actor.open();  // the domain has a peer
    std::vector<std::thread> threads;
    for (Filler& filler : fillers_) threads.emplace_back([&] { fill(filler); });
    while (fillers_[0].rounds + fillers_[1].rounds < kRounds && !board_.is_over()) {
      const std::uintptr_t at = fillers_[prng_.below(2)].shown.load();
      ibv_mr* mr = ibv_reg_mr(end_.pd, reinterpret_cast<void*>(at), kOctets, End::kAllAccess);
      if (mr == nullptr && errno != EFAULT) board_.fail("ibv_reg_mr");
      if (mr != nullptr && ibv_dereg_mr(mr) != 0) board_.fail("ibv_dereg_mr");
      if (mr != nullptr) ++board_.overlaid;
    }
    is_over_.store(true);
    for (std::thread& thread : threads) thread.join();
    actor.close();
  }

 private:
  static constexpr std::size_t kOctets = Stage::kFileBlocks * kBlockOctets;
  static constexpr int kRounds = 400;
  struct Filler {
    std::atomic<std::uintptr_t> shown{0};
    std::atomic<int> rounds{0};
  };

  void fill(Filler& filler) {
    const int file = ::open(stage_.file, O_RDONLY | O_CLOEXEC);
    while (!is_over_.load() && !board_.is_over()) {
      void* const at =
          ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      auto* const octets = static_cast<std::byte*>(at);
      filler.shown.store(reinterpret_cast<std::uintptr_t>(at));
      if (::pread(file, octets, kOctets, 0) != ssize_t{kOctets}) board_.fail("pread");
      for (std::size_t i = 0; i < Stage::kFileBlocks; ++i) {
        if (is_block(octets + i * kBlockOctets, Stage::stamp_of_file(i))) continue;
        board_.fail("block %zu of what was read is not there", i);
        break;
      }
      ::munmap(at, kOctets);
      ++filler.rounds;
    }
    ::close(file);
  }

  StressBoard& board_;
  Prng prng_;
  End end_;
  Stage stage_;
  std::array<Filler, 2> fillers_;
  std::atomic<bool> is_over_{false};
};

/// A program with a request of io_uring that waits for data while the memory is registered. The
/// kernel completes it on the thread that registers, between any two of its instructions.
class WaitingProgram {
 public:
  WaitingProgram(StressBoard& board, const char*, std::uint64_t seed) : board_(board), prng_(seed) {
    stage_.board = &board;
    stage_.end = &end_;
  }

  void run() {
    int sockets[2];
    if (!stage_.fresh.reserve() || !end_.open() ||
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
      return board_.fail("the device does not open");
    }
    const pid_t sender = start_sender(sockets[1]);
    MemoryActor actor(stage_, 0, prng_.next());
    actor.open();  // the domain has a peer
    RawRing ring;
    if (!ring.open()) {
      board_.note_refusal(Deed::kRingRead);
    } else {
      for (int round = 0; round < kRounds && !board_.is_over(); ++round) receive(ring, sockets[0]);
    }
    ::kill(sender, SIGKILL);
    ::waitpid(sender, nullptr, 0);
    actor.close();
  }

 private:
  static constexpr std::size_t kOctets = std::size_t{2} << 20;
  static constexpr int kRounds = 100;

  /// Sends one octet for each that it gets, a little later.
  pid_t start_sender(int socket) {
    const pid_t sender = ::fork();
    if (sender != 0) return sender;
    char octet = 0;
    while (::read(socket, &octet, 1) == 1) {
      ::usleep(static_cast<useconds_t>(prng_.below(1000)));
      octet = 'x';
      if (::write(socket, &octet, 1) != 1) break;
    }
    ::_exit(0);
  }

  void receive(RawRing& ring, int socket) {
    void* const at = ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    auto* const octets = static_cast<std::byte*>(at);
    const std::size_t where = prng_.below(kOctets);
    if (!ring.submit({.file = socket, .to = octets + where, .octets = 1, .offset = 0}) ||
        ::write(socket, "", 1) != 1) {
      return board_.fail("the request is refused");
    }
    ibv_mr* const mr = ibv_reg_mr(end_.pd, at, kOctets, End::kAllAccess);
    if (is_in_arena(at)) ++board_.moved;
    if (const int got = ring.reap(); got != 1) board_.fail("the receive ends with %d", got);
    if (octets[where] != std::byte{'x'}) board_.fail("what was received is not there");
    if (mr == nullptr || ibv_dereg_mr(mr) != 0) board_.fail("no region");
    ::munmap(at, kOctets);
  }

  StressBoard& board_;
  Prng prng_;
  End end_;
  Stage stage_;
};

class MemoryStress : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(board_, nullptr);
    // A file system that supports O_DIRECT.
    for (const char* folder : {".", "/var/tmp", "/tmp"}) {
      file_ = std::string(folder) + "/verbatim-memory-stress-" + std::to_string(::getpid());
      const int file =
          ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0600);
      if (file < 0) continue;
      ::close(file);
      fill_file();
      // Without a name it does not outlive the test, however that ends.
      kept_ = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC);
      EXPECT_EQ(::unlink(file_.c_str()), 0);
      file_ = "/proc/self/fd/" + std::to_string(kept_);
      return;
    }
    FAIL() << "no place for a file";
  }
  void TearDown() override {
    ::close(kept_);
    ::munmap(board_, sizeof *board_);
  }

  void fill_file() {
    std::vector<std::byte> contents(Stage::kFileBlocks * kBlockOctets);
    for (std::size_t i = 0; i < Stage::kFileBlocks; ++i) {
      store_block(contents.data() + i * kBlockOctets, Stage::stamp_of_file(i));
    }
    const int file = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(::write(file, contents.data(), contents.size()),
              static_cast<ssize_t>(contents.size()));
    EXPECT_EQ(::fsync(file), 0);
    ::close(file);
  }

  template <typename Kind>
  void run_program(std::uint64_t seed) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(kPatienceSeconds);
      Kind(*board_, file_.c_str(), seed).run();
      ::_exit(board_->is_over() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "the program ended with status " << status << "; VERBATIM_STRESS_SEED=" << seed;
  }

  StressBoard* board_ = share_with_children<StressBoard>();
  std::string file_;
  int kept_ = -1;
};

TEST_F(MemoryStress, EveryOctetIsWhatTheProgramOrTheKernelStored) {
  const char* wanted_seed = std::getenv("VERBATIM_STRESS_SEED");
  const char* wanted_time = std::getenv("VERBATIM_STRESS_SECONDS");
  const std::uint64_t seed =
      wanted_seed != nullptr ? std::strtoull(wanted_seed, nullptr, 0) : std::random_device()();
  std::printf("VERBATIM_STRESS_SEED=%lu\n", static_cast<unsigned long>(seed));
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::seconds(wanted_time != nullptr ? std::strtol(wanted_time, nullptr, 10) : 0);
  std::uint64_t rounds = 0;
  while (!HasFailure() && (rounds < kRounds || std::chrono::steady_clock::now() < end)) {
    run_program<Program>(seed + rounds++);
    if (wanted_seed != nullptr && wanted_time == nullptr) break;
  }
  std::printf("%lu rounds\n", static_cast<unsigned long>(rounds));
  for (std::size_t i = 0; i < kDeedCount; ++i) {
    std::printf("  %-26s %lu%s\n", kDeedNames[i], static_cast<unsigned long>(board_->done[i]),
                board_->is_refused[i] ? " (sometimes refused by the system)" : "");
    EXPECT_TRUE(board_->done[i] > 0 || board_->is_refused[i] || rounds < kRounds) << kDeedNames[i];
  }
  std::printf("  regions moved %lu, not moved %lu; with moved memory: forks %lu, emptied %lu\n",
              static_cast<unsigned long>(board_->moved), static_cast<unsigned long>(board_->stayed),
              static_cast<unsigned long>(board_->forked_moved),
              static_cast<unsigned long>(board_->emptied_moved));
  std::printf("  cancelled %lu, registered under other threads %lu\n",
              static_cast<unsigned long>(board_->cancelled),
              static_cast<unsigned long>(board_->overlaid));
  EXPECT_EQ(board_->failures.load(), 0U);
  if (rounds < kRounds) return;
  EXPECT_GT(board_->cancelled.load(), 0U);
  EXPECT_GT(board_->overlaid.load(), 0U);
  if (goes_through_packets()) return;
  EXPECT_GT(board_->moved.load(), 0U) << "no memory has moved";
  EXPECT_GT(board_->forked_moved.load(), 0U);
  EXPECT_GT(board_->emptied_moved.load(), 0U);
}

TEST_F(MemoryStress, TheKernelFillsMemoryThatAnotherThreadRegisters) {
  run_program<FillingProgram>(std::random_device()());
  EXPECT_EQ(board_->failures.load(), 0U);
  EXPECT_GT(board_->overlaid.load(), 0U);
}

TEST_F(MemoryStress, ARequestThatWaitsIsFilledWhileItsMemoryMoves) {
  run_program<WaitingProgram>(std::random_device()());
  EXPECT_EQ(board_->failures.load(), 0U);
  const bool is_refused = board_->is_refused[static_cast<std::size_t>(Deed::kRingRead)];
  if (is_refused || goes_through_packets()) return;
  EXPECT_GT(board_->moved.load(), 0U);
}

}  // namespace
}  // namespace verbatim::testing
