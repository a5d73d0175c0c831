// SPDX-License-Identifier: Apache-2.0
#include "rehome/pinning.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace verbatim::rehome {
namespace {

TEST(Pinning, IsDoneThroughFilesKnownByName) {
  for (const char* link : {"anon_inode:[io_uring]",
                           "/dev/vfio/vfio",
                           "/dev/vfio/12",
                           "anon_inode:[vfio-device]",
                           "/dev/nvidia0",
                           "/dev/nvidiactl",
                           "/dev/nvidia-uvm",
                           "/dev/kvm",
                           "anon_inode:kvm-vm",
                           "anon_inode:kvm-vcpu:0",
                           "/dev/infiniband/uverbs0",
                           "/dev/kfd",
                           "/dev/dri/renderD128",
                           "/dev/nvme0n1",
                           "/dev/ng0n1",
                           "/dev/sda1",
                           "/dev/sr0",
                           "/dev/sg3",
                           "/dev/bsg/0:0:0:0",
                           "/dev/nst0",
                           "/dev/video2",
                           "/dev/fuse"}) {
    EXPECT_TRUE(names_a_pinning_file(link)) << link;
  }
  for (const char* link : {"", "/dev/null", "/dev/pts/0", "socket:[1234]", "pipe:[55]",
                           "anon_inode:[eventfd]", "anon_inode:[eventpoll]", "/home/io_uring",
                           "/memfd:verbatim-regions (deleted)", "/dev/shm/a", "/dev/zero"}) {
    EXPECT_FALSE(names_a_pinning_file(link)) << link;
  }
}

TEST(Pinning, IsNotDoneByOrdinaryDescriptors) {
  const std::array<int, 3> files = {::eventfd(0, EFD_CLOEXEC), ::socket(AF_INET, SOCK_DGRAM, 0),
                                    ::open("/dev/null", O_RDWR | O_CLOEXEC)};
  EXPECT_FALSE(may_have_pinned_pages());
  for (const int file : files) ::close(file);
}

TEST(Pinning, IsPossibleWhereAnIoUringIsOpen) {
  std::array<unsigned, 30> parameters{};  // struct io_uring_params has 120 octets
  const long ring = ::syscall(SYS_io_uring_setup, 2, parameters.data());
  if (ring < 0) GTEST_SKIP() << "the system allows no io_uring";
  EXPECT_TRUE(may_have_pinned_pages());
  ::close(static_cast<int>(ring));
  EXPECT_FALSE(may_have_pinned_pages());
}

TEST(Pinning, IsPossibleWhereAFileIsOpenForDirectReads) {
  std::array<char, 32> name{"/var/tmp/verbatim-XXXXXX"};
  const int file = ::mkostemp(name.data(), O_CLOEXEC | O_DIRECT);
  if (file < 0) GTEST_SKIP() << "the file system knows no direct reads";
  ::unlink(name.data());
  EXPECT_TRUE(may_have_pinned_pages());
  ::close(file);
  EXPECT_FALSE(may_have_pinned_pages());
}

TEST(Pinning, IsPossibleWhereAContextOfAsynchronousReadsExists) {
  unsigned long context = 0;
  if (::syscall(SYS_io_setup, 4, &context) != 0) GTEST_SKIP() << "the system allows none";
  EXPECT_TRUE(may_have_pinned_pages());
  EXPECT_EQ(::syscall(SYS_io_destroy, context), 0);
  EXPECT_FALSE(may_have_pinned_pages());
}

TEST(Pinning, IsPossibleWhereASocketComputesIntoTheProgramsMemory) {
  const int socket = ::socket(AF_ALG, SOCK_SEQPACKET, 0);
  if (socket < 0) GTEST_SKIP() << "the system allows no AF_ALG socket";
  EXPECT_TRUE(may_have_pinned_pages());
  ::close(socket);
  EXPECT_FALSE(may_have_pinned_pages());
}

TEST(Pinning, IsPossibleWhereAnXdpSocketIsOpen) {
  const int socket = ::socket(44, SOCK_RAW, 0);
  if (socket < 0) GTEST_SKIP() << "the system allows no AF_XDP socket";
  EXPECT_TRUE(may_have_pinned_pages());
  ::close(socket);
}

}  // namespace
}  // namespace verbatim::rehome
