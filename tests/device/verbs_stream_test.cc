// SPDX-License-Identifier: Apache-2.0
// A stream of WRITEs into a process that makes no calls: its engine receives, stays awake between
// trains, sleeps when the stream is over, and gets its share of a processor that other threads use.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "two_ends.h"

namespace verbatim::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Notes {
  EndNotes initiator;
  EndNotes target;
  std::atomic<bool> is_connected{false};
};

int be_target(Notes& notes) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.target, 1);
  if (!await([&] { return notes.initiator.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.initiator.number, {})) return 3;
  notes.is_connected = true;
  for (;;) ::pause();  // until it is killed
}

/// What a process has had of the processors, in hundredths of a second.
long ticks_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string behind_name = text.substr(text.rfind(')') + 1);
  long user = 0;
  long system = 0;
  (void)std::sscanf(behind_name.c_str(), " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
                    &user, &system);
  return user + system;
}

/// Linux 6.6 to 6.11 probably lets a thread that spins finish its time slice, also when another
/// thread is woken meanwhile. This was not measured.
bool does_system_let_spinners_finish() {
  utsname system{};
  int major = 0;
  int minor = 0;
  (void)::uname(&system);
  (void)std::sscanf(system.release, "%d.%d", &major, &minor);
  return major == 6 && minor >= 6 && minor < 12;
}

class VerbsStream : public ::testing::Test {
 protected:
  ~VerbsStream() override {
    if (target_ > 0) {
      ::kill(target_, SIGKILL);
      ::waitpid(target_, nullptr, 0);
    }
    if (end_.qp != nullptr) ibv_destroy_qp(end_.qp);
    if (end_.mr != nullptr) ibv_dereg_mr(end_.mr);
    if (end_.cq != nullptr) ibv_destroy_cq(end_.cq);
    if (end_.pd != nullptr) ibv_dealloc_pd(end_.pd);
    if (end_.context != nullptr) ibv_close_device(end_.context);
    std::free(end_.buffer);
    (void)::sched_setaffinity(0, sizeof allowed_, &allowed_);
    ::munmap(notes_, sizeof(Notes));
  }

  /// Both ends, and all of their threads.
  void stay_on_one_processor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
      if (CPU_ISSET(i, &allowed_)) CPU_SET(i, &one);
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }

  void connect() {
    ASSERT_NE(notes_, nullptr);
    target_ = ::fork();
    if (target_ == 0) ::_exit(be_target(*notes_));
    ASSERT_GT(target_, 0);
    ASSERT_TRUE(end_.open() && end_.make_qp(&end_.qp));
    end_.tell(notes_->initiator, 1);
    ASSERT_TRUE(await([&] { return notes_->target.ready == 1; }));
    ASSERT_TRUE(end_.connect(end_.qp, notes_->target.number, {}));
    ASSERT_TRUE(await([&] { return notes_->is_connected.load(); }));
  }

  enum class Waits : std::uint8_t { kSpinning, kAsleep };
  /// How long the stream takes.
  Clock::duration stream(Waits waits) {
    constexpr int kWrites = 256;
    const auto began = Clock::now();
    for (int posted = 0, done = 0; done < kWrites && !HasFailure();) {
      if (posted < kWrites && posted - done < 8) {
        EXPECT_TRUE(
            End::post(end_.qp, 0, IBV_WR_RDMA_WRITE, end_.sge(0, End::kOctets), notes_->target));
        ++posted;
        continue;
      }
      ibv_wc wc{};
      const int polled = ibv_poll_cq(end_.cq, 1, &wc);
      if (polled == 0 && waits == Waits::kAsleep) ::usleep(50);
      if (polled == 0 && Clock::now() - began < kEndPatience) continue;
      EXPECT_EQ(polled, 1);
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      ++done;
    }
    return Clock::now() - began;
  }

  [[nodiscard]] pid_t target() const { return target_; }

 private:
  static cpu_set_t allowed() {
    cpu_set_t set;
    CPU_ZERO(&set);
    (void)::sched_getaffinity(0, sizeof set, &set);
    return set;
  }

  cpu_set_t allowed_ = allowed();
  Notes* notes_ = share_with_children<Notes>();
  pid_t target_ = -1;
  End end_;
};

TEST_F(VerbsStream, WhenItIsOverTheTargetRests) {
  ASSERT_NO_FATAL_FAILURE(connect());
  (void)stream(Waits::kSpinning);
  const long before = ticks_of(target());
  ::usleep(1'000'000);
  EXPECT_LE(ticks_of(target()) - before, 20) << "hundredths of a second in which nothing happened";
}

TEST_F(VerbsStream, ATargetOnTheProcessorOfASenderThatSpinsGetsItInTime) {
  if (does_system_let_spinners_finish())
    GTEST_SKIP() << "this system lets a thread that spins use up its time";
  stay_on_one_processor();
  ASSERT_NO_FATAL_FAILURE(connect());
  Clock::duration spinning = Clock::duration::max();
  Clock::duration asleep = Clock::duration::max();
  for (int round = 0; round < 5; ++round) {
    asleep = std::min(asleep, stream(Waits::kAsleep));
    spinning = std::min(spinning, stream(Waits::kSpinning));
  }
  EXPECT_LT(spinning, 4 * asleep) << "the spinning thread keeps the target from running";
}

}  // namespace
}  // namespace verbatim::testing
