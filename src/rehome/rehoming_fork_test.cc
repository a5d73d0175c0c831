// SPDX-License-Identifier: Apache-2.0
// Moved memory and forked children.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/pointer.h"
#include "rehome/rehoming.h"
#include "rehome/test_moving.h"

namespace verbatim::rehome {
namespace {

using test::kMebi;
using test::Memory;
using test::page;

/// The object that the handlers of fork(2) use; handlers of pthread_atfork(3) cannot be removed.
std::atomic<Rehoming*> g_handled = nullptr;
bool g_is_amid_call = false;  // the fork interrupts a call of the library

void install_handlers() {
  static const int kInstalled = ::pthread_atfork(
      []() VB_UNCHECKED_LOCKING {
        if (g_handled == nullptr) return;
        if (g_is_amid_call) return g_handled.load()->prepare_fork_amid_call();
        g_handled.load()->lock_for_fork();
        g_handled.load()->prepare_fork(g_handled.load()->fork_mode());
      },
      []() VB_UNCHECKED_LOCKING {
        if (g_handled == nullptr) return;
        g_is_amid_call ? g_handled.load()->after_fork_amid_call_in_parent()
                       : g_handled.load()->after_fork_in_parent();
      },
      []() VB_UNCHECKED_LOCKING {
        OwnThread::reset_in_child();
        if (g_handled == nullptr) return;
        g_is_amid_call ? g_handled.load()->after_fork_amid_call_in_child()
                       : g_handled.load()->after_fork_in_child();
      });
  ASSERT_EQ(kInstalled, 0);
}

class Forked : public test::Moving {
 protected:
  void SetUp() override {
    test::Moving::SetUp();
    install_handlers();
    g_handled = &rehoming_;
  }
  void TearDown() override {
    g_handled = nullptr;
    g_is_amid_call = false;
  }

  /// Runs `body` in a child after the parent has stored to the memory.
  template <typename Body>
  void after_the_parent_stores(const Memory& memory, Body&& body) {
    std::array<int, 2> gate{};
    ASSERT_EQ(::pipe(gate.data()), 0);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      char octet = 0;
      EXPECT_EQ(::read(gate[0], &octet, 1), 1);
      body();
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    memory.fill(1);
    ASSERT_EQ(::write(gate[1], "x", 1), 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(memory.is_filled(1));
    ::close(gate[0]);
    ::close(gate[1]);
  }
};

TEST_P(Forked, ChildHasItsOwnMemoryAlsoInTheMiddleOfACall) {
  const Memory memory(5 * kMebi + page());
  memory.fill();
  (void)move_in(memory.range());
  g_is_amid_call = true;
  after_the_parent_stores(memory, [&] {
    EXPECT_TRUE(memory.is_filled(0));
    memory.fill(2);
    EXPECT_TRUE(memory.is_filled(2));
  });
  const auto is_shared = [&](const Mapping& mapping) {
    return mapping.shared && mapping.range.overlaps(memory.range());
  };
  EXPECT_NE(test::mappings(is_shared), 0U) << "peers of the parent still reach it";
}

/// After ibv_fork_init(3).
TEST_P(Forked, ChildHasWhatIsNotRegisteredAlsoInTheMiddleOfACall) {
  const Memory memory(4 * page());
  memory.fill();
  const Placement whole = move_in(memory.range());
  const Placement first = move_in(memory.part(0, page()));
  rehoming_.drop(whole);
  rehoming_.set_dont_fork();
  g_is_amid_call = true;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto rest = memory.part(page(), 3 * page());
    const auto* const at = pointer_as<const volatile unsigned char>(rest.begin);
    unsigned sum = 0;
    for (std::size_t i = 0; i < rest.octets(); ++i) sum += at[i];  // faults if it is not mapped
    ::_exit(sum == 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  rehoming_.drop(first);
}

TEST_P(Forked, ChildHasItsOwnMemoryAsOfTheFork) {
  const Memory memory(5 * kMebi + page());
  memory.fill();
  (void)move_in(memory.range());
  after_the_parent_stores(memory, [&] {
    EXPECT_TRUE(memory.is_filled(0));
    memory.fill(2);
    EXPECT_TRUE(memory.is_filled(2));
    EXPECT_EQ(::madvise(memory.data(), memory.octets(), MADV_DONTNEED), 0);
    EXPECT_TRUE(memory.is_zero());
  });
  EXPECT_STREQ(refusal(memory.range()), to_text(Why::kForked));
  ASSERT_EQ(::madvise(memory.data(), memory.octets(), MADV_DONTNEED), 0);
  EXPECT_TRUE(memory.is_zero()) << "and so has the parent";
}

TEST_P(Forked, ChildHasItsOwnMemoryBesideOtherThreads) {
  const Memory memory(kMebi);
  memory.fill();
  (void)move_in(memory.range());
  std::atomic<bool> goes_on{true};
  std::thread other([&] {
    while (goes_on) std::this_thread::yield();
  });
  after_the_parent_stores(memory, [&] {
    EXPECT_TRUE(memory.is_filled(0));
    memory.fill(2);
  });
  goes_on = false;
  other.join();
}

TEST_P(Forked, ChildIsCopiedWherePagesMayBePinnedAndTheParentStaysShared) {
  const Memory memory(kMebi);
  memory.fill();
  const Placement placement = move_in(memory.range());
  unsigned long context = 0;
  if (::syscall(SYS_io_setup, 4, &context) != 0) GTEST_SKIP() << "nothing can be pinned";
  after_the_parent_stores(memory, [&] {
    EXPECT_TRUE(memory.is_filled(0));
    memory.fill(2);
  });
  EXPECT_EQ(::syscall(SYS_io_destroy, context), 0);
  EXPECT_EQ(move_in(memory.range()).offset, placement.offset);
}

TEST_P(Forked, MuchMemoryIsNotCopied) {
  const Memory memory(96 * kMebi);
  memory.fill();
  (void)move_in(memory.range());
  after_the_parent_stores(memory, [&] { EXPECT_TRUE(memory.is_filled(0)); });
}

TEST_P(Forked, ChildMovesMemoryIntoAnArenaOfItsOwn) {
  const Memory memory(kMebi);
  memory.fill();
  (void)move_in(memory.range());
  after_the_parent_stores(memory, [&] {
    (void)move_in(memory.range());
    EXPECT_TRUE(memory.is_filled(0));
    EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  });
}

TEST_P(Forked, ChildOfAChildHasItsOwnMemory) {
  const Memory memory(kMebi);
  memory.fill();
  (void)move_in(memory.range());
  after_the_parent_stores(memory, [&] {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(memory.is_filled(0) ? 0 : 1);
    int status = 1;
    EXPECT_EQ(::waitpid(grandchild, &status, 0), grandchild);
    EXPECT_EQ(status, 0);
  });
}

TEST_P(Forked, ChildInheritsNothingAfterForkInit) {
  rehoming_.set_dont_fork();
  const Memory memory(kMebi);
  memory.fill();
  const Placement placement = move_in(memory.range());
  const int ended = test::in_a_child([&] { EXPECT_EQ(test::mappings_in(memory.range()), 0U); });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(rehoming_.moved_octets(), memory.octets());
  rehoming_.drop(placement);
  after_the_parent_stores(memory, [&] { EXPECT_TRUE(memory.is_filled()) << "no longer a region"; });
}

/// No handler runs: the child has no memory there, so it cannot store to the parent's memory.
TEST_P(Forked, ChildOfARawForkDoesNotStoreIntoTheParent) {
  const Memory memory(4 * page());
  memory.fill();
  (void)move_in(memory.range());
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    memory.data()[0] = std::byte{0xee};
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(memory.is_filled());
}

VB_WITH_EVERY_TAKING(Forked);

}  // namespace
}  // namespace verbatim::rehome
