// SPDX-License-Identifier: Apache-2.0
#include "memory/access.h"

#include <gtest/gtest.h>

namespace verbatim::memory {
namespace {

TEST(Access, HasTheValuesOfTheVerbs) {
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kLocalWrite), 0x1U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kRemoteWrite), 0x2U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kRemoteRead), 0x4U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kRemoteAtomic), 0x8U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kBindWindow), 0x10U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kZeroBased), 0x20U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kOnDemand), 0x40U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kHugePages), 0x80U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kFlushGlobal), 0x100U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kFlushPersistent), 0x200U);
  EXPECT_EQ(static_cast<std::uint32_t>(Access::kRelaxedOrdering), 0x10'0000U);
}

TEST(Access, AllowsExactlyTheSubsetsOfWhatWasGranted) {
  for (std::uint32_t granted = 0; granted < 64; ++granted) {
    for (std::uint32_t needed = 0; needed < 64; ++needed) {
      bool subset = true;
      for (std::uint32_t bit = 0; bit < 6; ++bit) {
        const bool is_needed = (needed >> bit & 1U) != 0;
        const bool is_granted = (granted >> bit & 1U) != 0;
        if (is_needed && !is_granted) subset = false;
      }
      EXPECT_EQ(allows(Access{granted}, Access{needed}), subset) << granted << ' ' << needed;
    }
  }
}

TEST(Access, RemoteChangesNeedTheRightToChangeLocally) {
  for (std::uint32_t raw = 0; raw < 16; ++raw) {
    const bool local_write = (raw & 1U) != 0;
    const bool remote_write = (raw & 2U) != 0;
    const bool remote_atomic = (raw & 8U) != 0;
    const bool contradicts = (remote_write || remote_atomic) && !local_write;
    EXPECT_EQ(is_consistent(Access{raw}), !contradicts) << raw;
  }
}

TEST(Access, RightsThatChangeNothingAreConsistentAlone) {
  EXPECT_TRUE(is_consistent(Access::kBindWindow | Access::kZeroBased | Access::kOnDemand));
  EXPECT_TRUE(is_consistent(Access::kFlushGlobal | Access::kFlushPersistent));
  EXPECT_TRUE(is_consistent(Access::kRelaxedOrdering));
}

}  // namespace
}  // namespace verbatim::memory
