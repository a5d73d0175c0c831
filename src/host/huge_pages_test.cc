// SPDX-License-Identifier: Apache-2.0
#include "host/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace verbatim::host {
namespace {

constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS;

TEST(MapAligned, IsAtAMultipleOfAHugePageAndAllThere) {
  for (const std::size_t octets :
       {std::size_t{1}, std::size_t{5000}, kHugePageOctets, 3 * kHugePageOctets + 4096}) {
    std::byte* const at = map_aligned(octets, kOwn, -1);
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % kHugePageOctets, 0U);
    at[0] = at[octets - 1] = std::byte{1};
    EXPECT_EQ(munmap(at, octets), 0);
  }
}

TEST(MapAligned, LeavesNothingBehindWhenItIsRefused) {
  EXPECT_EQ(map_aligned(4096, MAP_SHARED, -1), nullptr);
  EXPECT_EQ(map_aligned(~std::size_t{0} / 2, kOwn, -1), nullptr);
}

TEST(GatherPages, KeepsWhatIsThereAndZeroesElsewhere) {
  const int file = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, kHugePageOctets), 0);
  std::byte* const at = map_aligned(kHugePageOctets, MAP_SHARED, file);
  ASSERT_NE(at, nullptr);
  at[5000] = std::byte{7};
  if (!gather_pages(at)) GTEST_SKIP() << "this system makes no huge pages of small ones";
  EXPECT_EQ(at[5000], std::byte{7});
  EXPECT_EQ(at[kHugePageOctets - 1], std::byte{0});
  munmap(at, kHugePageOctets);
  close(file);
}

}  // namespace
}  // namespace verbatim::host
