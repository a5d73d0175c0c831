// SPDX-License-Identifier: Apache-2.0
#include "host/runtime_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>

#include "host/test_process.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

int open_socket(int type = SOCK_DGRAM) { return ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0); }

std::string directory() {
  const int socket = open_socket();
  const RuntimeDirectory* found = RuntimeDirectory::of(socket);
  ::close(socket);
  if (found != nullptr) ::close(found->hold());
  return found != nullptr ? found->path() : "none: " + RuntimeDirectory::explain();
}

/// Runs `body` with a VERBATIM_DIR of its own, which does not exist yet.
template <typename Body>
void with_a_place(Body&& body) {
  std::string parent = "/tmp/vbXXXXXX";
  ASSERT_NE(::mkdtemp(parent.data()), nullptr);
  const std::string place = parent + "/d";
  EXPECT_EQ(test::in_a_child([&] {
              ::setenv("VERBATIM_DIR", place.c_str(), 1);
              body(place);
            }),
            0);
  EXPECT_EQ(std::system(("rm -rf " + parent).c_str()), 0);
}

TEST(RuntimeDirectory, IsClosedToOtherUsers) {
  with_a_place([](const std::string& place) {
    const std::string path = directory();
    EXPECT_EQ(path.substr(0, place.size()), place);
    for (const std::string& folder : {place, path}) {
      struct stat about {};
      ASSERT_EQ(::stat(folder.c_str(), &about), 0);
      EXPECT_EQ(about.st_mode & 07777, 0700U);
      EXPECT_EQ(about.st_uid, ::geteuid());
    }
  });
}

mode_t mode_of(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0);
  return about.st_mode & 07777;
}

/// VERBATIM_DIR=/tmp in the environment of root must not close /tmp to all other users.
TEST(RuntimeDirectory, IsRefusedWhereOthersMayEnterItAndItsModeStays) {
  for (const mode_t mode : {01777U, 0755U, 0711U, 02700U}) {
    with_a_place([mode](const std::string& place) {
      ASSERT_EQ(::mkdir(place.c_str(), 0700), 0);
      ASSERT_EQ(::chmod(place.c_str(), mode), 0);
      EXPECT_EQ(directory().substr(0, 5), "none:");
      EXPECT_EQ(mode_of(place), mode);
      EXPECT_NE(RuntimeDirectory::explain().find("mode 0700"), std::string::npos);
    });
  }
}

TEST(RuntimeDirectory, IsMadeWhereItIsNotThereWhateverTheUmaskIs) {
  for (const mode_t mask : {0U, 0022U, 0077U}) {
    with_a_place([mask](const std::string& place) {
      ::umask(mask);
      EXPECT_EQ(directory().substr(0, place.size()), place);
      EXPECT_EQ(mode_of(place), 0700U);
    });
  }
}

TEST(RuntimeDirectory, IsNoSymbolicLink) {
  with_a_place([](const std::string& place) {
    ASSERT_EQ(::mkdir((place + "2").c_str(), 0700), 0);
    ASSERT_EQ(::symlink((place + "2").c_str(), place.c_str()), 0);
    EXPECT_EQ(directory().substr(0, 5), "none:");
    EXPECT_NE(RuntimeDirectory::explain().find(place), std::string::npos);
  });
}

TEST(RuntimeDirectory, IsAnotherInAnotherNetwork) {
  with_a_place([](const std::string&) {
    const std::string here = directory();
    EXPECT_EQ(directory(), here);
    test::in_a_private_network([&] { EXPECT_NE(directory(), here); });
  });
}

TEST(RuntimeDirectory, IsThatOfASocketsNameAlsoAfterAChangeOfUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  with_a_place([](const std::string&) {
    const int socket = open_socket();
    ASSERT_EQ(UnixName::in_directory("here").bind(socket), 0);
    const std::string here = directory();
    ::unsetenv("VERBATIM_DIR");
    ASSERT_EQ(::setuid(54321), 0);
    ASSERT_NE(RuntimeDirectory::of(socket), nullptr);
    EXPECT_EQ(RuntimeDirectory::of(socket)->path(), here);
    EXPECT_NE(directory(), here);
    const std::byte octet{1};
    EXPECT_EQ(UnixName::in_directory("here").send(socket, {&octet, 1}), -1);
    EXPECT_EQ(errno, EACCES);
  });
  EXPECT_EQ(std::system("rm -rf /tmp/.verbatim-54321"), 0);
}

TEST(RuntimeDirectory, IsFoundAlthoughAnotherUserHasTakenItsName) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kVictim = 54323;
  constexpr uid_t kStranger = 54322;
  const std::string taken = "/tmp/.verbatim-" + std::to_string(kVictim);
  EXPECT_EQ(test::in_a_child([&] {
              ASSERT_EQ(::setuid(kStranger), 0);
              ASSERT_EQ(::mkdir(taken.c_str(), 0777), 0);
              ASSERT_EQ(::chmod(taken.c_str(), 0777), 0);
              ASSERT_EQ(::mkdir((taken + "-00000000").c_str(), 0777), 0);
            }),
            0);
  EXPECT_EQ(test::in_a_child([&] {
              ASSERT_EQ(::setuid(kVictim), 0);
              const std::string path = directory();
              EXPECT_EQ(path.substr(0, taken.size() + 1), taken + "-");
              struct stat about {};
              ASSERT_EQ(::stat(path.c_str(), &about), 0);
              EXPECT_EQ(about.st_uid, kVictim);
              EXPECT_EQ(test::in_a_child([&] { EXPECT_EQ(directory(), path); }), 0);
            }),
            0);
  EXPECT_EQ(std::system(("rm -rf " + taken + " " + taken + "-*").c_str()), 0);
}

/// Runs `body` in a process of this user.
template <typename Body>
void as_user(uid_t user, Body&& body) {
  EXPECT_EQ(test::in_a_child([&] {
              ASSERT_EQ(::setuid(user), 0);
              body();
            }),
            0);
}

/// The processes that run are in the directory with the plain name; a second one would part them
/// from all that start later.
TEST(RuntimeDirectory, GetsNoSecondNameFromAProcessWithoutDescriptors) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kUser = 61024;
  const std::string name = ".verbatim-" + std::to_string(kUser);
  const auto remove = [&] { return std::system(("rm -rf /tmp/" + name + "*").c_str()); };
  ASSERT_EQ(remove(), 0);
  EXPECT_EQ(test::in_a_child([&] {
              ::unsetenv("VERBATIM_DIR");
              ASSERT_EQ(::setuid(kUser), 0);
              const int socket = open_socket();
              const rlimit few{.rlim_cur = static_cast<rlim_t>(socket) + 1, .rlim_max = 1024};
              ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
              EXPECT_EQ(RuntimeDirectory::of(socket), nullptr);
              ::close(socket);
              EXPECT_NE(RuntimeDirectory::explain().find("ulimit -n"), std::string::npos);
              const rlimit enough{.rlim_cur = 1024, .rlim_max = 1024};
              ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &enough), 0);
              EXPECT_EQ(directory().substr(0, 6 + name.size()), "/tmp/" + name + "/");
            }),
            0);
  EXPECT_EQ(remove(), 0);
}

TEST(RuntimeDirectory, StaysTheSameWhenTheUserThatHadTakenItsNameLeaves) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kVictim = 54325;
  constexpr uid_t kStranger = 54324;
  const std::string taken = "/tmp/.verbatim-" + std::to_string(kVictim);
  as_user(kStranger, [&] { ASSERT_EQ(::mkdir(taken.c_str(), 0777), 0); });
  as_user(kVictim, [&] {
    const std::string path = directory();
    EXPECT_EQ(path.substr(0, taken.size() + 1), taken + "-");
  });
  as_user(kStranger, [&] { ASSERT_EQ(::rmdir(taken.c_str()), 0); });
  as_user(kVictim, [&] {
    EXPECT_EQ(directory().substr(0, taken.size() + 1), taken + "-");
    EXPECT_EQ(::access(taken.c_str(), F_OK), -1) << "the plain name is not made";
  });
  EXPECT_EQ(std::system(("rm -rf " + taken + " " + taken + "-*").c_str()), 0);
}

TEST(UnixName, IsFreeWhenItsProcessHasEndedHoweverItEnded) {
  with_a_place([](const std::string&) {
    const std::string here = directory();
    const UnixName name = UnixName::in_directory("test");
    EXPECT_EQ(test::in_a_child([&] {
                EXPECT_EQ(name.bind(open_socket()), 0);
                EXPECT_EQ(name.bind(open_socket()), -1);
                EXPECT_EQ(errno, EADDRINUSE);
                ::_exit(0);
              }),
              0);
    EXPECT_EQ(::access((here + "/test").c_str(), F_OK), 0) << "it has left its name behind";
    const int socket = open_socket();
    EXPECT_EQ(name.connect(socket), -1);
    EXPECT_EQ(errno, ECONNREFUSED);
    EXPECT_EQ(name.bind(socket), 0);
    EXPECT_EQ(test::in_a_child([&] {
                EXPECT_EQ(name.bind(open_socket()), -1);
                EXPECT_EQ(errno, EADDRINUSE);
              }),
              0);
    UnixName::remove(socket);
    EXPECT_EQ(::access((here + "/test").c_str(), F_OK), -1);
  });
}

TEST(RuntimeDirectory, LosesWhatKilledProcessesHaveLeftBehindAndNothingElse) {
  with_a_place([](const std::string&) {
    const int socket = open_socket();
    ASSERT_EQ(UnixName::in_directory("used").bind(socket), 0);
    const int listener = open_socket(SOCK_SEQPACKET);
    ASSERT_EQ(UnixName::in_directory("used.too").bind(listener), 0);  // does not listen yet
    const std::string path = RuntimeDirectory::of(socket)->path();
    const auto leave_something = [&] {
      EXPECT_EQ(test::in_a_child([&] {
                  EXPECT_EQ(UnixName::in_directory("left").bind(open_socket()), 0);
                  ::_exit(0);
                }),
                0);
    };
    const auto is_there = [&](const char* name) {
      return ::access((path + "/" + name).c_str(), F_OK) == 0;
    };
    leave_something();
    EXPECT_TRUE(is_there("left"));
    const int held = RuntimeDirectory::of(socket)->hold();
    EXPECT_FALSE(is_there("left"));
    EXPECT_TRUE(is_there("used") && is_there("used.too"));
    leave_something();
    ::close(RuntimeDirectory::of(socket)->hold());
    EXPECT_TRUE(is_there("left")) << "another process has the directory in use";
    ::close(held);
  });
}

/// Between the check of a name and its removal, another process may take the name over.
TEST(RuntimeDirectory, LosesNoNameWhileAnotherProcessTakesNamesOver) {
  with_a_place([](const std::string&) {
    const std::string path = directory();
    EXPECT_EQ(test::in_a_child([&] {
                EXPECT_EQ(UnixName::in_directory("left").bind(open_socket()), 0);
                ::_exit(0);
              }),
              0);
    const int file = ::open((path + "/names.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(file, F_OFD_SETLK, &lock), 0);
    EXPECT_EQ(test::in_a_child([&] { (void)directory(); }), 0);
    EXPECT_EQ(::access((path + "/left").c_str(), F_OK), 0);
    EXPECT_EQ(::access((path + "/names.lock").c_str(), F_OK), 0);
    ::close(file);
    EXPECT_EQ(test::in_a_child([&] { (void)directory(); }), 0);
    EXPECT_EQ(::access((path + "/left").c_str(), F_OK), -1);
  });
}

TEST(RuntimeDirectory, IsNotUsedWhileAnotherProcessHasItForItself) {
  with_a_place([](const std::string&) {
    const int socket = open_socket();
    const RuntimeDirectory* found = RuntimeDirectory::of(socket);
    ASSERT_NE(found, nullptr);
    ::close(found->hold());
    const int other = ::open(found->path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
    std::atomic<bool> is_released{false};
    std::thread releaser([&] {
      ::usleep(400'000);
      is_released = true;
      ::flock(other, LOCK_UN);
    });
    const int held = found->hold();
    EXPECT_TRUE(is_released);
    EXPECT_GE(held, 0);
    releaser.join();
  });
}

TEST(RuntimeDirectory, OfANetworkThatIsGoneIsRemoved) {
  with_a_place([](const std::string& place) {
    std::string here;
    test::in_a_private_network([] {
      (void)directory();
      EXPECT_EQ(UnixName::in_directory("left").bind(open_socket()), 0);
      ::_exit(0);
    });
    here = directory();
    std::size_t count = 0;
    DIR* folder = ::opendir(place.c_str());
    ASSERT_NE(folder, nullptr);
    while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
    ::closedir(folder);
    EXPECT_EQ(count, 1U) << here;
  });
}

}  // namespace
}  // namespace verbatim::host
