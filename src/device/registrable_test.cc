// SPDX-License-Identifier: Apache-2.0
#include "device/registrable.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

namespace verbatim::device {
namespace {

/// Three pages that the program may read and write.
class Registrable : public testing::Test {
 protected:
  Registrable()
      : octets_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        pages_(static_cast<std::byte*>(::mmap(nullptr, 3 * octets_, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Registrable() override { ::munmap(pages_, 3 * octets_); }

  [[nodiscard]] std::byte* middle() const { return pages_ + octets_; }
  [[nodiscard]] bool is_registrable(bool is_written) const {
    return device::is_registrable(pages_ + 5, 3 * octets_ - 10, is_written);
  }

  const std::size_t octets_;  // of a page
  std::byte* const pages_;
};

TEST_F(Registrable, MemoryOfTheProgramIs) {
  EXPECT_TRUE(is_registrable(false));
  EXPECT_TRUE(is_registrable(true));
}

TEST_F(Registrable, APageThatCannotBeWrittenIsOnlyForReading) {
  ASSERT_EQ(::mprotect(middle(), octets_, PROT_READ), 0);
  EXPECT_TRUE(is_registrable(false));
  EXPECT_FALSE(is_registrable(true));
}

TEST_F(Registrable, APageThatCannotBeReadIsNot) {
  ASSERT_EQ(::mprotect(middle(), octets_, PROT_NONE), 0);
  EXPECT_FALSE(is_registrable(false));
  EXPECT_FALSE(is_registrable(true));
}

TEST_F(Registrable, ARangeWithAGapIsNot) {
  ASSERT_EQ(::munmap(middle(), octets_), 0);
  EXPECT_FALSE(is_registrable(false));
  EXPECT_TRUE(device::is_registrable(pages_, octets_, true)) << "the page before the gap";
}

TEST_F(Registrable, NoOctetsNeedNoMemory) {
  ASSERT_EQ(::munmap(middle(), octets_), 0);
  EXPECT_TRUE(device::is_registrable(middle(), 0, true));
}

TEST_F(Registrable, ARangeBeyondTheLastAddressIsNot) {
  EXPECT_FALSE(device::is_registrable(pages_, std::numeric_limits<std::size_t>::max(), false));
}

}  // namespace
}  // namespace verbatim::device
