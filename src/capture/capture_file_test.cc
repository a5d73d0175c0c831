// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>

#include "capture/test_capture.h"

namespace verbatim::link {
namespace {

using test::Folder;
using test::octets_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::byte> kBlock(100, std::byte{7});

CaptureFile opened(const std::string& pattern) {
  std::string message;
  auto file = CaptureFile::open(pattern, message);
  EXPECT_TRUE(file.ok()) << message;
  return file.ok() ? std::move(*file) : CaptureFile{};
}

std::string refused(const std::string& pattern) {
  std::string message;
  EXPECT_FALSE(CaptureFile::open(pattern, message).ok()) << pattern;
  std::string prepared;
  EXPECT_FALSE(CaptureFile::prepare(pattern, prepared).ok()) << pattern;
  EXPECT_EQ(prepared, message);
  return message;
}

std::string own(const std::string& name) { return capture_name_beside(name, ::getpid()); }

TEST(CaptureFile, NamesCarryTheProcessNumberWhereAsked) {
  EXPECT_EQ(expand_capture_name("a-%p.pcapng", 42), "a-42.pcapng");
  EXPECT_EQ(expand_capture_name("%p%p", 7), "77");
  EXPECT_EQ(expand_capture_name("100%%p%", 7), "100%p%");
  EXPECT_EQ(expand_capture_name("%x", 7), "%x");
  EXPECT_EQ(capture_name_beside("/a.b/run.pcapng", 42), "/a.b/run-42.pcapng");
  EXPECT_EQ(capture_name_beside("/a.b/run", 42), "/a.b/run-42");
  EXPECT_EQ(capture_name_beside(".hidden", 42), ".hidden-42");
}

TEST(CaptureFile, TheFirstProcessGetsTheNameAndTheSecondWritesBesideIt) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  CaptureFile first = opened(name);
  CaptureFile second = opened(name);
  EXPECT_EQ(first.name(), name);
  EXPECT_EQ(second.name(), own(name));
  EXPECT_EQ(first.append(kBlock), 0);
  EXPECT_EQ(octets_of(name), kBlock);
  EXPECT_TRUE(octets_of(second.name()).empty());
}

TEST(CaptureFile, WhatAnEarlierProcessWroteStays) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  EXPECT_EQ(opened(name).append(kBlock), 0);
  EXPECT_EQ(opened(name).name(), own(name));
  EXPECT_EQ(octets_of(name), kBlock);
}

TEST(CaptureFile, APreparedFileIsEmptyAndReady) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  EXPECT_EQ(opened(name).append(kBlock), 0);
  std::string message;
  ASSERT_TRUE(CaptureFile::prepare(name, message).ok()) << message;
  EXPECT_TRUE(octets_of(name).empty());
  EXPECT_EQ(opened(name).name(), name);
}

TEST(CaptureFile, PreparingNamesWithTheProcessNumberLeavesNothing) {
  const Folder folder;
  std::string message;
  ASSERT_TRUE(CaptureFile::prepare(folder.file("%p.pcapng"), message).ok()) << message;
  EXPECT_EQ(folder.count(), 0U);
  EXPECT_EQ(opened(folder.file("%p.pcapng")).name(),
            folder.file(std::to_string(::getpid()) + ".pcapng"));
}

TEST(CaptureFile, AFileThatIsBeingWrittenIsNotPrepared) {
  const Folder folder;
  CaptureFile file = opened(folder.file("run.pcapng"));
  EXPECT_EQ(file.append(kBlock), 0);
  std::string message;
  EXPECT_FALSE(CaptureFile::prepare(folder.file("run.pcapng"), message).ok());
  EXPECT_THAT(message, AllOf(HasSubstr("run.pcapng"), HasSubstr("%p")));
  EXPECT_EQ(octets_of(file.name()), kBlock);
}

TEST(CaptureFile, RefusesPathsThatCannotBeByName) {
  const Folder folder;
  EXPECT_THAT(refused(folder.file("none/run.pcapng")),
              AllOf(HasSubstr("none/run.pcapng"), HasSubstr("folder")));
  EXPECT_THAT(refused(folder.file("")), HasSubstr("directory"));
  EXPECT_THAT(refused(""), HasSubstr("''"));
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refused(pipe), AllOf(HasSubstr(pipe), HasSubstr("reader")));
}

TEST(CaptureFile, ASymbolicLinkToAFileIsNotFollowed) {
  const Folder folder;
  const std::string link = folder.file("run.pcapng");
  ASSERT_EQ(::symlink(folder.file("other").c_str(), link.c_str()), 0);
  EXPECT_THAT(refused(link), AllOf(HasSubstr(link), HasSubstr("symbolic link")));
  EXPECT_EQ(folder.count(), 1U) << "nothing was made";
  EXPECT_EQ(opened(folder.file("other")).append(kBlock), 0);
  EXPECT_THAT(refused(link), HasSubstr("symbolic link"));
  EXPECT_EQ(octets_of(folder.file("other")), kBlock);
}

TEST(CaptureFile, ASymbolicLinkInTheNameBesideIsNotFollowed) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  CaptureFile first = opened(name);
  ASSERT_EQ(::symlink(folder.file("other").c_str(), own(name).c_str()), 0);
  std::string message;
  EXPECT_FALSE(CaptureFile::open(name, message).ok());
  EXPECT_THAT(message, HasSubstr("symbolic link"));
  EXPECT_EQ(folder.count(), 2U) << "nothing was made";
}

TEST(CaptureFile, ASymbolicLinkToADeviceIsFollowed) {
  const Folder folder;
  const std::string link = folder.file("device");
  ASSERT_EQ(::symlink("/dev/full", link.c_str()), 0);
  EXPECT_EQ(opened(link).append(kBlock), ENOSPC);
}

TEST(CaptureFile, AFullDiskIsAnError) { EXPECT_EQ(opened("/dev/full").append(kBlock), ENOSPC); }

/// Runs `body` where files may be no longer than `octets`; its result is the exit status.
template <typename Body>
int with_file_limit(rlim_t octets, Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = octets, .rlim_max = octets};
    ::_exit(::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? body() : 99);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(CaptureFile, AFileThatMayGrowNoMoreKeepsItsWholeBlocksAndKillsNoProcess) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  const int ended = with_file_limit(150, [&] {
    CaptureFile file = opened(name);
    if (file.append(kBlock) != 0) return 1;
    if (file.append(kBlock) != EFBIG) return 2;
    sigset_t pending;
    ::sigpending(&pending);
    return ::sigismember(&pending, SIGXFSZ) == 1 ? 3 : 0;
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(octets_of(name), kBlock);
}

}  // namespace
}  // namespace verbatim::link
