// SPDX-License-Identifier: Apache-2.0
#include "host/process_mark.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "host/test_process.h"

namespace verbatim::host {
namespace {

/// A process that waits for its end.
class Waiting {
 public:
  Waiting() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    kill();
    collect();
  }
  void kill() const {
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    (void)::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }
  void collect() const { (void)::waitpid(pid_, nullptr, 0); }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

char state_of_first_thread() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  return text[text.rfind(')') + 2];
}

TEST(ProcessMark, AProcessThatIsStoppedHasNotEnded) {
  const Waiting process;
  const ProcessMark mark = ProcessMark::of(process.pid());
  ASSERT_TRUE(mark.exists());
  EXPECT_FALSE(mark.has_ended());
  ::kill(process.pid(), SIGSTOP);
  (void)::waitpid(process.pid(), nullptr, WUNTRACED);
  EXPECT_FALSE(mark.has_ended());
}

TEST(ProcessMark, AProcessThatWasKilledHasEndedBeforeItsParentCollectsIt) {
  const Waiting process;
  const ProcessMark mark = ProcessMark::of(process.pid());
  process.kill();
  EXPECT_TRUE(mark.has_ended());
  process.collect();
  EXPECT_TRUE(mark.has_ended());
}

TEST(ProcessMark, AProcessHasNotEndedWithItsFirstThread) {
  int ready[2]{};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t process = ::fork();
  if (process == 0) {
    std::thread([&] {
      // The first thread is dead when its state says so.
      while (state_of_first_thread() != 'Z') ::usleep(1000);
      (void)!::write(ready[1], "x", 1);
      while (true) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  }
  const ProcessMark mark = ProcessMark::of(process);
  char octet = 0;
  ASSERT_EQ(::read(ready[0], &octet, 1), 1);
  EXPECT_FALSE(mark.has_ended());
  ::kill(process, SIGKILL);
  siginfo_t info;
  (void)::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(mark.has_ended());
  (void)::waitpid(process, nullptr, 0);
  for (const int end : ready) ::close(end);
}

TEST(ProcessMark, WithoutDescriptorsAProcessThatIsGoneHasEnded) {
  const int ended = test::in_a_child([] {
    const Waiting process;
    const ProcessMark mark = ProcessMark::of(process.pid());
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_FALSE(mark.has_ended());
    process.kill();
    process.collect();
    EXPECT_TRUE(mark.has_ended());
  });
  EXPECT_EQ(ended, 0);
}

TEST(ProcessMark, NoProcessHasEnded) {
  EXPECT_FALSE(ProcessMark().exists());
  EXPECT_TRUE(ProcessMark().has_ended());
  EXPECT_FALSE(ProcessMark::of(0).exists());
}

}  // namespace
}  // namespace verbatim::host
