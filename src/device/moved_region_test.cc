// SPDX-License-Identifier: Apache-2.0
// Memory regions whose memory has moved into the arena, where peers map it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/occupancy.h"
#include "base/pointer.h"
#include "device/memory_region.h"
#include "device/test_memory_world.h"
#include "direct/access_list.h"
#include "rehome/tasks.h"
#include "rehome/test_memory.h"

namespace verbatim::device {
namespace {

namespace test = rehome::test;

using memory::Backing;
using test::Memory;
using test::page;

constexpr auto kHome = TestMemoryWorld::kHome;
constexpr auto kAbroad = TestMemoryWorld::kAbroad;
constexpr auto kEverything = memory::TestMemory::kEverything;
constexpr std::byte kOwn{0x11};
constexpr std::byte kLate{0xee};

/// The pages of a region as a peer maps them. The peer may store there at any time, also when the
/// registration has ended.
class PeerMapping {
 public:
  explicit PeerMapping(const memory::KeyEntry& entry)
      : octets_(entry.octets),
        at_(::mmap(nullptr, octets_, PROT_READ | PROT_WRITE, MAP_SHARED,
                   process_rehoming().arena().descriptor(), static_cast<off_t>(entry.shared_at))) {
    EXPECT_EQ(entry.status.backing, Backing::kShared);
    EXPECT_NE(at_, MAP_FAILED);
  }
  PeerMapping(const PeerMapping&) = delete;
  PeerMapping& operator=(const PeerMapping&) = delete;
  ~PeerMapping() { ::munmap(at_, octets_); }

  /// The peer continues and stores to every page. Returns whether the store appears in `memory`.
  [[nodiscard]] bool reaches(const Memory& memory) const {
    for (std::size_t i = 0; i < octets_; i += page()) static_cast<std::byte*>(at_)[i] = kLate;
    for (std::size_t i = 0; i < octets_; i += page()) {
      if (memory.data()[i] == kLate) return true;
      EXPECT_EQ(memory.data()[i], kOwn);
    }
    return false;
  }

 private:
  std::size_t octets_;
  void* at_;
};

class MovedRegion : public ::testing::Test {
 protected:
  void SetUp() override {
    VB_SKIP_IF_NOTHING_MOVES();
    prepare_process_rehoming();
    const std::lock_guard lock(world.lock());
    for (const auto domain : {kHome, kAbroad}) world.homes().share(domain);
  }

  /// Memory that stays mapped when the test has ended: the addresses of pages that were abandoned
  /// do not move again.
  [[nodiscard]] static const Memory& new_memory(std::size_t octets) {
    static auto& all = *new std::vector<std::unique_ptr<Memory>>;
    return *all.emplace_back(std::make_unique<Memory>(octets));
  }
  [[nodiscard]] static MemoryRegion::Place place_of(const Memory& memory) {
    return {.address = numeric_address(memory.data()), .octets = memory.octets()};
  }
  [[nodiscard]] std::unique_ptr<MemoryRegion> make(const MemoryRegion::Place& place,
                                                   memory::DomainId domain = kHome) {
    auto region = MemoryRegion::create(
        world.parts(),
        {.domain = domain, .place = place, .base = place.address, .access = kEverything});
    EXPECT_TRUE(region.ok());
    return region ? std::move(*region) : nullptr;
  }
  [[nodiscard]] std::unique_ptr<MemoryRegion> make(const Memory& memory,
                                                   memory::DomainId domain = kHome) {
    return make(place_of(memory), domain);
  }
  static void fill(const Memory& memory) {
    for (std::size_t i = 0; i < memory.octets(); i += page()) memory.data()[i] = kOwn;
  }
  [[nodiscard]] const memory::KeyEntry& entry_of(const MemoryRegion& region) const {
    return world.memory.entry_of(region.key());
  }
  [[nodiscard]] bool admits(wire::MemoryKey key, const MemoryRegion::Place& place) const {
    auto want = world.memory.want(key);
    want.address = place.address;
    return refusal_of(world.memory.table().check_remote(want)) == memory::Refusal::kNone;
  }
  /// What Visitors::lock_out() does for a half whose visitor is stopped.
  void lock_out(memory::DomainId domain) {
    const std::lock_guard lock(world.lock());
    world.homes().withdraw({domain});
    world.homes().abandon({domain});
  }

  /// What a fork does in the parent.
  void fork_here() {
    auto& rehoming = process_rehoming();
    rehoming.lock_for_fork();
    ASSERT_EQ(rehoming.fork_mode(), rehome::Rehoming::ForkMode::kPrivate);
    {
      const std::lock_guard lock(world.lock());
      world.homes().withdraw_all();
      world.homes().note_fork();
    }
    rehoming.prepare_fork(rehome::Rehoming::ForkMode::kPrivate);
    rehoming.after_fork_in_parent();
  }

  TestMemoryWorld world;
};

TEST_F(MovedRegion, StaysInTheArenaWhenNoPeerIsStopped) {
  const Memory& memory = new_memory(2 * page());
  fill(memory);
  auto region = make(memory);
  const PeerMapping peer(entry_of(*region));
  ASSERT_TRUE(region->destroy().ok());
  region = make(memory);
  EXPECT_EQ(entry_of(*region).status.backing, Backing::kShared);
  EXPECT_TRUE(peer.reaches(memory));
  EXPECT_TRUE(region->destroy().ok());
}

// A peer that is stopped in the middle of an access stores when it continues.

TEST_F(MovedRegion, IsOutOfReachOfAStoppedPeerWhenItEnds) {
  const Memory& memory = new_memory(2 * page());
  fill(memory);
  auto region = make(memory);
  const PeerMapping peer(entry_of(*region));
  world.has_left = false;
  ASSERT_TRUE(region->destroy().ok());
  EXPECT_FALSE(peer.reaches(memory));
}

TEST_F(MovedRegion, IsOutOfReachOfAStoppedPeerWhenItHasOtherMemory) {
  const Memory& memory = new_memory(2 * page());
  const Memory& other = new_memory(2 * page());
  fill(memory);
  fill(other);
  auto region = make(memory);
  const PeerMapping peer(entry_of(*region));
  world.has_left = false;
  ASSERT_TRUE(region->change({.place = place_of(other)}).ok());
  EXPECT_FALSE(peer.reaches(memory));
  world.has_left = true;
  const PeerMapping peer_of_other(entry_of(*region));
  EXPECT_TRUE(peer_of_other.reaches(other)) << "no peer was stopped there";
  EXPECT_TRUE(region->destroy().ok());
}

/// The end of a queue pair locks the stopped peer out. From then on PeerAccess::await() does not
/// count it.
TEST_F(MovedRegion, IsOutOfReachOfAPeerThatWasLockedOutBeforeItEnds) {
  const Memory& memory = new_memory(2 * page());
  fill(memory);
  auto region = make(memory);
  const PeerMapping peer(entry_of(*region));
  lock_out(kHome);
  ASSERT_TRUE(region->destroy().ok());
  EXPECT_FALSE(peer.reaches(memory));
}

TEST_F(MovedRegion, IsOutOfReachOfAPeerThatWasLockedOutBeforeItHasOtherMemory) {
  const Memory& memory = new_memory(2 * page());
  const Memory& other = new_memory(2 * page());
  fill(memory);
  auto region = make(memory);
  const PeerMapping peer(entry_of(*region));
  lock_out(kHome);
  ASSERT_TRUE(region->change({.place = place_of(other)}).ok());
  EXPECT_FALSE(peer.reaches(memory));
  EXPECT_TRUE(region->destroy().ok());
}

/// A thread that ends a registration meanwhile must see that it has to wait.
TEST_F(MovedRegion, IsAbandonedUntilItsPagesArePrivate) {
  const Memory& memory = new_memory(2 * page());
  fill(memory);
  auto region = make(memory);
  auto other = make(memory, kAbroad);  // so that the pages are withdrawn from it, which awaits
  lock_out(kHome);
  bool has_awaited = false;
  world.on_await = [&] {
    has_awaited = true;
    EXPECT_TRUE(world.homes().has_abandoned());
  };
  world.homes().detach_abandoned();
  EXPECT_TRUE(has_awaited);
  EXPECT_FALSE(world.homes().has_abandoned());
  world.on_await = [] {};
  EXPECT_TRUE(other->destroy().ok());
  EXPECT_TRUE(region->destroy().ok());
}

// Forks.

/// The key names the new memory from the moment of the change. What a fork publishes for the key
/// while the change waits must be that of the new memory.
TEST_F(MovedRegion, IsNotPublishedForOtherMemoryThatCannotMove) {
  const Memory& memory = new_memory(2 * page());
  const Memory& other = new_memory(page());
  auto region = make(memory);
  ASSERT_EQ(entry_of(*region).status.backing, Backing::kShared);
  world.on_await_calls = [&](auto&) {
    world.homes().withdraw_all();
    world.homes().restore_all();
    EXPECT_EQ(entry_of(*region).status.backing, Backing::kPrivate);
  };
  const MemoryRegion::Place part{.address = numeric_address(other.data()), .octets = page() / 2};
  ASSERT_TRUE(region->change({.place = part}).ok());
  EXPECT_EQ(entry_of(*region).status.backing, Backing::kPrivate);
  EXPECT_TRUE(region->destroy().ok());
}

TEST_F(MovedRegion, IsNotPublishedForOtherMemoryThatMoves) {
  const Memory& memory = new_memory(2 * page());
  const Memory& other = new_memory(2 * page());
  fill(other);
  auto region = make(memory);
  const std::uint64_t before = entry_of(*region).shared_at;
  world.on_await_calls = [&](auto&) {
    world.homes().withdraw_all();
    world.homes().restore_all();
    EXPECT_NE(entry_of(*region).shared_at, before);
  };
  ASSERT_TRUE(region->change({.place = place_of(other)}).ok());
  world.on_await_calls = [](auto&) {};
  EXPECT_TRUE(PeerMapping(entry_of(*region)).reaches(other));
  EXPECT_TRUE(region->destroy().ok());
}

/// A fork would make these pages private without a copy, and the store of the peer would appear.
TEST_F(MovedRegion, IsNotMadePrivateByAForkWhileAPeerMayStillWriteIt) {
  const Memory& memory = new_memory(2 * page());
  auto region = make(memory);
  const auto await_all = [&] {
    const std::lock_guard lock(world.lock());
    return world.homes().await_all();
  };
  EXPECT_TRUE(await_all());
  world.has_left = false;
  EXPECT_FALSE(await_all());
  world.has_left = true;
  lock_out(kHome);
  EXPECT_FALSE(await_all()) << "the peer that is locked out may still write";
  world.homes().run_moves();
  EXPECT_TRUE(await_all());
  EXPECT_TRUE(region->destroy().ok());
}

/// Another thread forks between the two steps of a registration: the memory has its home, and no
/// key names it yet.
TEST_F(MovedRegion, IsNotPublishedWhenAForkHasMadeItPrivateMeanwhile) {
  const Memory& memory = new_memory(2 * page());
  fill(memory);
  auto first = make(memory);
  const PeerMapping peer(entry_of(*first));
  auto second = make(memory);
  const RegionHomes::Region region{
      .domain = kHome, .address = numeric_address(memory.data()), .octets = memory.octets()};
  const RegionHomes::Home found = RegionHomes::find(region, true);
  ASSERT_TRUE(found.placement);
  fork_here();
  RegionHomes::Home before;
  {
    const std::lock_guard lock(world.lock());
    before = world.homes().exchange(second->key(), found);
  }
  RegionHomes::give_up(before);
  EXPECT_EQ(entry_of(*first).status.backing, Backing::kPrivate);
  EXPECT_EQ(entry_of(*second).status.backing, Backing::kPrivate);
  fill(memory);
  EXPECT_FALSE(peer.reaches(memory)) << "a peer must not be sent to these pages";
  EXPECT_TRUE(second->destroy().ok());
  EXPECT_TRUE(first->destroy().ok());
}

// Memory that the program replaces while another thread registers it.

/// Whether the thread waits for a lock of the process's Rehoming.
bool waits_for_rehoming(pid_t thread) {
  rehome::TaskFile text{};
  const auto line = rehome::read_task_file(std::to_string(thread).c_str(), "/syscall", text);
  const std::string futex = std::to_string(SYS_futex) + " 0x";
  if (!line.starts_with(futex)) return false;
  std::uintptr_t at = 0;
  (void)std::from_chars(line.data() + futex.size(), line.data() + line.size(), at, 16);
  const auto begin = numeric_address(&process_rehoming());
  return at >= begin && at < begin + sizeof(rehome::Rehoming);
}

class ReplacedMemory : public MovedRegion {
 protected:
  /// Runs `registers` in another thread. When that has begun to look for a home of the memory, and
  /// before its key names the memory, other memory appears there.
  void replace_during(const Memory& memory, const std::function<void()>& registers) {
    auto& rehoming = process_rehoming();
    rehoming.lock_for_fork();
    std::atomic<pid_t> id{0};
    std::thread thread([&] {
      id = ::gettid();
      registers();
    });
    while (id == 0 || !waits_for_rehoming(id)) std::this_thread::yield();
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    EXPECT_EQ(::munmap(memory.data(), memory.octets()), 0);
    EXPECT_EQ(::mmap(memory.data(), memory.octets(), PROT_READ | PROT_WRITE, kFlags, -1, 0),
              memory.data());
    rehoming.after_fork_in_parent();
    thread.join();
  }
};

TEST_F(ReplacedMemory, IsNotReachedByTheKeyOfANewRegion) {
  const Memory& memory = new_memory(2 * page());
  auto first = make(memory);  // from now on the memory is watched
  std::unique_ptr<MemoryRegion> second;
  replace_during(memory, [&] { second = make(memory); });
  ASSERT_NE(second, nullptr);
  EXPECT_FALSE(admits(first->key(), place_of(memory)));
  EXPECT_FALSE(admits(second->key(), place_of(memory)));
  EXPECT_TRUE(first->destroy().ok());
  EXPECT_TRUE(second->destroy().ok());
}

TEST_F(ReplacedMemory, IsNotReachedByTheKeyOfAChangedRegionWhileTheChangeWaits) {
  const Memory& memory = new_memory(2 * page());
  const Memory& before = new_memory(2 * page());
  auto first = make(memory);
  auto second = make(before);
  int waits = 0;
  const auto look = [&] {
    ++waits;
    EXPECT_FALSE(admits(second->key(), place_of(memory)));
  };
  world.on_await = look;
  world.on_await_calls = [&](auto&) { look(); };
  replace_during(memory, [&] { EXPECT_TRUE(second->change({.place = place_of(memory)}).ok()); });
  EXPECT_EQ(waits, 2);
  EXPECT_FALSE(admits(second->key(), place_of(memory)));
  EXPECT_TRUE(first->destroy().ok());
  EXPECT_TRUE(second->destroy().ok());
}

TEST_F(ReplacedMemory, DoesNotKeepAKeyFromOtherMemory) {
  const Memory& memory = new_memory(2 * page());
  const Memory& before = new_memory(2 * page());
  const Memory& after = new_memory(2 * page());
  auto first = make(memory);
  auto second = make(before);
  replace_during(memory, [&] { EXPECT_TRUE(second->change({.place = place_of(after)}).ok()); });
  EXPECT_TRUE(admits(second->key(), place_of(after)));
  EXPECT_TRUE(first->destroy().ok());
  EXPECT_TRUE(second->destroy().ok());
}

TEST_F(ReplacedMemory, IsStillWaitedForWhileAnotherThreadEndsItsKey) {
  constexpr auto kLimitOfWaiting = std::chrono::milliseconds(30);
  const Memory& memory = new_memory(2 * page());
  ASSERT_TRUE(make(memory)->destroy().ok());  // it stays watched
  Occupancy inside;
  const direct::AccessParty visitor(direct::AccessParty::Kind::kVisitor, inside);
  const RegionHomes::Ending ending(world.homes());
  inside.enter(Fencing::kFenced);
  std::atomic<bool> is_over{false};
  std::thread thread([&] {
    std::this_thread::sleep_for(kLimitOfWaiting / 4);
    is_over = true;
    inside.leave(Fencing::kFenced);
  });
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(::munmap(memory.data(), memory.octets()), 0);
  EXPECT_TRUE(is_over || std::chrono::steady_clock::now() - begin >= kLimitOfWaiting);
  thread.join();
}

}  // namespace
}  // namespace verbatim::device
