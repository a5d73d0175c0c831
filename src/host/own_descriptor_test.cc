// SPDX-License-Identifier: Apache-2.0
#include "host/own_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>
#include <vector>

namespace verbatim::host {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

/// One function for each kind of file that the library opens.
std::vector<std::function<int()>> kinds() {
  return {[] { return ::eventfd(0, EFD_CLOEXEC); },
          [] { return ::epoll_create1(EPOLL_CLOEXEC); },
          [] { return ::memfd_create("test", MFD_CLOEXEC); },
          [] { return ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); },
          [] { return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); },
          [] { return ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }};
}

/// A program's file at exactly this number.
void open_at(int number, int file) {
  ASSERT_EQ(::dup2(file, number), number);
  ::close(file);
}

TEST(OwnDescriptor, IsClosedAtTheEnd) {
  for (const auto& open : kinds()) {
    int number = -1;
    {
      const OwnDescriptor own(open());
      number = own.number();
      ASSERT_TRUE(is_open(number));
      EXPECT_TRUE(own.is_still_own());
    }
    EXPECT_FALSE(is_open(number));
  }
}

/// In a child whose objects must not be accessed.
TEST(OwnDescriptor, AllOfThemAreClosedInAChildAndNothingElse) {
  std::vector<OwnDescriptor> own;
  for (const auto& open : kinds()) own.emplace_back(open());
  const auto given = OwnDescriptor::in_place(::eventfd(0, EFD_CLOEXEC));
  OwnDescriptor lost(::eventfd(0, EFD_CLOEXEC));
  ::close(lost.number());
  open_at(lost.number(), ::eventfd(0, EFD_CLOEXEC));  // the program's
  OwnDescriptor moved(::eventfd(0, EFD_CLOEXEC));
  const int released = moved.release();
  const pid_t child = ::fork();
  if (child == 0) {
    OwnDescriptor::close_all_in_child();
    int wrong = 0;
    for (const OwnDescriptor& each : own) wrong += is_open(each.number()) || each.is_still_own();
    for (const int kept : {given.number(), lost.number(), released}) wrong += !is_open(kept);
    ::_exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const OwnDescriptor& each : own) EXPECT_TRUE(each.is_still_own());
  ::close(lost.number());
  ::close(released);
}

TEST(OwnDescriptor, IsOutOfTheWayOfFilesThatTheProgramOpens) {
  const OwnDescriptor own(::eventfd(0, EFD_CLOEXEC));
  const int next = ::eventfd(0, EFD_CLOEXEC);
  EXPECT_GT(own.number(), next + 100);
  ::close(next);
}

TEST(OwnDescriptor, StaysWhereTheProgramHasSeenIt) {
  const int number = ::eventfd(0, EFD_CLOEXEC);
  const auto own = OwnDescriptor::in_place(number);
  EXPECT_EQ(own.number(), number);
  EXPECT_TRUE(own.is_still_own());
}

TEST(OwnDescriptor, AFileOfTheProgramAtTheSameNumberStaysOpen) {
  for (const auto& open : kinds()) {
    for (const auto& open_another : kinds()) {
      OwnDescriptor own(open());
      const int number = own.number();
      const int file = open_another();
      if (::fcntl(file, F_GETFD) < 0) FAIL();
      // The root directory is one file, even if it is opened several times.
      struct stat ours {};
      struct stat theirs {};
      ::fstat(number, &ours);
      ::fstat(file, &theirs);
      if (S_ISDIR(ours.st_mode) && S_ISDIR(theirs.st_mode)) {
        ::close(file);
        continue;
      }
      open_at(number, file);
      EXPECT_FALSE(own.is_still_own());
      own.close();
      EXPECT_FALSE(own.is_open());
      EXPECT_TRUE(is_open(number));
      ::close(number);
    }
  }
}

TEST(OwnDescriptor, OneThatTheProgramHasClosedIsNotClosedAgain) {
  OwnDescriptor own(::eventfd(0, EFD_CLOEXEC));
  ::close(own.number());
  EXPECT_FALSE(own.is_still_own());
  own.close();
}

TEST(OwnDescriptor, AnotherOfTheLibraryAtTheSameNumberStaysOpen) {
  OwnDescriptor first(::eventfd(0, EFD_CLOEXEC));
  const int number = first.number();
  ::close(number);
  OwnDescriptor second(::eventfd(0, EFD_CLOEXEC));
  ASSERT_EQ(second.number(), number);
  EXPECT_FALSE(first.is_still_own());
  first.close();
  EXPECT_TRUE(second.is_still_own());
}

TEST(OwnDescriptor, MovesWithItsObject) {
  OwnDescriptor first(::eventfd(0, EFD_CLOEXEC));
  const int number = first.number();
  OwnDescriptor second(std::move(first));
  EXPECT_EQ(second.number(), number);
  OwnDescriptor third;
  third = std::move(second);
  EXPECT_TRUE(third.is_still_own());
  third = OwnDescriptor();
  EXPECT_FALSE(is_open(number));
}

TEST(OwnDescriptor, LeavesErrnoAlone) {
  OwnDescriptor own(::eventfd(0, EFD_CLOEXEC));
  ::close(own.number());
  errno = 0;
  EXPECT_FALSE(own.is_still_own());
  own.close();
  EXPECT_EQ(errno, 0);
}

}  // namespace
}  // namespace verbatim::host
