// SPDX-License-Identifier: Apache-2.0
// Access by system calls while the key that allows it becomes invalid.
#include "direct/reach.h"
#include "base/pointer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <vector>

namespace verbatim::direct {
namespace {

class ReachByCall : public ::testing::Test {
 protected:
  void SetUp() override {
    page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* at =
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    there_ = static_cast<std::byte*>(at);
    own_.assign(2 * page_, std::byte{7});
    piece_ = {.iov_base = own_.data(), .iov_len = own_.size()};
    memory_ = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    ASSERT_GE(memory_, 0);
    entry_.key = kKey;
    memory::publish(entry_);
  }
  void TearDown() override {
    ::munmap(there_, 2 * page_);
    ::close(memory_);
  }

  [[nodiscard]] Permission permission() const {
    return {.entry = &entry_, .key = kKey, .generation = entry_.status.generation};
  }
  [[nodiscard]] Reached write(const Permission& by) {
    return Reach(arena_, memory_).write_by_call(address(), {&piece_, 1}, 2 * page_, true, by);
  }
  [[nodiscard]] Reached read(const Permission& by) {
    return Reach(arena_, memory_).read_by_call(address(), {&piece_, 1}, 2 * page_, by);
  }
  [[nodiscard]] std::uint64_t address() const { return numeric_address(there_); }
  void unmap_second_page() const { ASSERT_EQ(::munmap(there_ + page_, page_), 0); }

  static constexpr std::uint32_t kKey = 0x1234;
  memory::KeyEntry entry_;
  std::size_t page_ = 0;
  std::byte* there_ = nullptr;
  std::vector<std::byte> own_;
  iovec piece_{};
  host::ArenaViews arena_;
  int memory_ = -1;
};

TEST_F(ReachByCall, MovesAll) {
  EXPECT_EQ(write(permission()), Reached::kYes);
  EXPECT_EQ(there_[2 * page_ - 1], std::byte{7});
  there_[page_] = std::byte{9};
  EXPECT_EQ(read(permission()), Reached::kYes);
  EXPECT_EQ(own_[page_], std::byte{9});
}

/// The owner's unmapping closes the key. Other memory may be mapped there at the next call.
TEST_F(ReachByCall, DoesNotCallAgainWhenTheKeyWasClosed) {
  unmap_second_page();
  const Permission before = permission();
  memory::store_field(entry_.status.live, 0U);
  EXPECT_EQ(write(before), Reached::kRevoked);
  EXPECT_EQ(read(before), Reached::kRevoked);
}

TEST_F(ReachByCall, DoesNotCallAgainWhenTheKeyNamesOtherMemory) {
  unmap_second_page();
  const Permission before = permission();
  memory::withdraw(entry_);
  memory::publish(entry_);
  EXPECT_EQ(write(before), Reached::kRevoked);
}

TEST_F(ReachByCall, ChecksTheKeyBetweenTheBodyAndTheTail) {
  const Permission before = permission();
  memory::store_field(entry_.status.live, 0U);
  EXPECT_EQ(write(before), Reached::kRevoked);
  EXPECT_EQ(there_[2 * page_ - 1], std::byte{0});
}

TEST_F(ReachByCall, NeedsTheOwnerWhenMemoryStaysAbsent) {
  unmap_second_page();
  EXPECT_EQ(write(permission()), Reached::kForbidden);
}

}  // namespace
}  // namespace verbatim::direct
