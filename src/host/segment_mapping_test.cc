// SPDX-License-Identifier: Apache-2.0
#include "host/segment_mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "host/test_mappings.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

constexpr std::size_t kStep = SegmentMapping::kStep;
constexpr std::size_t kOctets = 3 * kStep;

class MappedFile {
 public:
  MappedFile() {
    file_ = ::memfd_create("segment_mapping_test", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(file_, kOctets), 0);
    EXPECT_TRUE(mapping_.map(file_, kOctets));
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    mapping_.unmap();
    ::close(file_);
  }
  [[nodiscard]] int file() const { return file_; }
  SegmentMapping& operator*() { return mapping_; }
  SegmentMapping* operator->() { return &mapping_; }

 private:
  int file_ = -1;
  SegmentMapping mapping_;
};

TEST(SegmentMapping, IsAccessibleAsFarAsItWasOpened) {
  MappedFile mapping;
  EXPECT_EQ(mapping->octets(), kOctets);
  for (const std::size_t end : {std::size_t{1}, kStep, kStep + 1, kOctets, std::size_t{5}}) {
    ASSERT_TRUE(mapping->open_up_to(end));
    mapping->begin()[end - 1] = std::byte{7};
  }
  EXPECT_FALSE(mapping->open_up_to(kOctets + 1));
  EXPECT_FALSE(mapping->open_up_to(~std::size_t{0}));
  std::byte octet{};
  EXPECT_EQ(::pread(mapping.file(), &octet, 1, kOctets - 1), 1);
  EXPECT_EQ(octet, std::byte{7});
}

TEST(SegmentMapping, CanBeOpenedByAnyThread) {
  MappedFile mapping;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&mapping, i] {
      for (std::size_t end = i + 1; end <= kOctets; end += 4096) {
        ASSERT_TRUE(mapping->open_up_to(end));
        mapping->begin()[end - 1] = std::byte{1};
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SegmentMapping, IsLeftOutOfCoreDumps) {
  MappedFile mapping;
  ASSERT_TRUE(mapping->open_up_to(1));
  if (test::flags_of_mapping(&mapping).empty()) GTEST_SKIP() << "the system does not show flags";
  EXPECT_TRUE(test::is_in_core_dumps(&mapping)) << "the test's stack";
  EXPECT_FALSE(test::is_in_core_dumps(mapping->begin()));
  EXPECT_FALSE(test::is_in_core_dumps(mapping->begin() + kOctets - 1));
}

/// As mlockall(2) does it, which would lock the shadow memory of a sanitizer as well.
TEST(SegmentMapping, GetsNoPagesForBeingLockedWhereItIsNotOpen) {
  MappedFile mapping;
  ASSERT_TRUE(mapping->open_up_to(1));
  (void)::mlock(mapping->begin(), kOctets);  // fails behind the octets that are accessible
  if (test::octets_allocated(mapping.file()) == 0) GTEST_SKIP() << "the system locks no memory";
  EXPECT_EQ(test::octets_allocated(mapping.file()), kStep);
}

TEST(SegmentMapping, IsPrivateInAChildThatReplacesIt) {
  MappedFile mapping;
  ASSERT_TRUE(mapping->open_up_to(1));
  mapping->begin()[9] = std::byte{1};
  const auto check = [&](int file, std::byte wanted) {
    return test::in_a_child([&] {
      mapping->replace_in_child(file);
      EXPECT_EQ(mapping->begin()[9], wanted);
      mapping->begin()[9] = std::byte{2};
      EXPECT_TRUE(mapping->open_up_to(kOctets));
      mapping->begin()[kOctets - 1] = std::byte{2};
      EXPECT_FALSE(test::is_in_core_dumps(mapping->begin()));
    });
  };
  EXPECT_EQ(check(mapping.file(), std::byte{1}), 0);
  EXPECT_EQ(check(-1, std::byte{0}), 0);
  EXPECT_EQ(mapping->begin()[9], std::byte{1});
}

}  // namespace
}  // namespace verbatim::host
