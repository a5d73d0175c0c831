// SPDX-License-Identifier: Apache-2.0
#include "base/environment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace verbatim {
namespace {

constexpr const char* kVariable = "VERBATIM_ENVIRONMENT_TEST";
constexpr uid_t kOwner = 54321;
constexpr int kHasNone = 3;
constexpr int kHasOne = 4;

// The test below runs this one in another program.
TEST(Environment, DISABLED_SaysWhatItSees) {
  ::_exit(environment_variable(kVariable) == nullptr ? kHasNone : kHasOne);
}

/// Runs a copy of this program that belongs to another user and has this mode, and returns how it
/// ends.
int run_copy(const std::filesystem::path& copy, mode_t mode) {
  EXPECT_EQ(::chown(copy.c_str(), kOwner, kOwner), 0);
  EXPECT_EQ(::chmod(copy.c_str(), mode), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kVariable, "1", 1);
    ::execl(copy.c_str(), copy.c_str(), "--gtest_also_run_disabled_tests",
            "--gtest_filter=Environment.DISABLED_SaysWhatItSees", nullptr);
    ::_exit(1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Environment, IsNotObeyedByAProgramWithMoreRightsThanItsCaller) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a program to another user";
#if VB_THREAD_SANITIZER
  GTEST_SKIP() << "the sanitizer's runtime does not start in such a program";
#endif
  std::string folder = "/tmp/vb-environment-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  const std::filesystem::path copy = folder + "/program";
  std::filesystem::copy_file("/proc/self/exe", copy);
  EXPECT_EQ(run_copy(copy, 0755), kHasOne);
  EXPECT_EQ(run_copy(copy, 04755), kHasNone);
  EXPECT_EQ(run_copy(copy, 02755), kHasNone);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace verbatim
