// SPDX-License-Identifier: Apache-2.0
#include "base/careful_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace verbatim {
namespace {

constexpr std::size_t kPage = 64 * 1024;     // the largest page of any system
constexpr std::size_t kFew = 80;             // octets: more than one iteration of any loop
constexpr std::size_t kMuch = 256 * 1024;    // from this length on the copy prefetches
constexpr std::size_t kNowhere = 8 * kPage;  // more than any copy here

std::vector<std::byte> pattern(std::size_t octets) {
  std::vector<std::byte> made(octets);
  for (std::size_t i = 0; i < octets; ++i) made[i] = std::byte(i * 7 + i / 256 + 1);
  return made;
}

TEST(CarefulCopy, CopiesEveryLengthFromAndToEveryPlace) {
  const auto from = pattern(512);
  for (std::size_t octets = 0; octets <= 300; ++octets) {
    for (std::size_t to_at = 0; to_at < 9; ++to_at) {
      const std::size_t from_at = (octets + to_at * 3) % 9;
      std::vector<std::byte> to(512, std::byte{0xee});
      ASSERT_TRUE(careful_copy(to.data() + 16 + to_at, from.data() + from_at, octets));
      ASSERT_EQ(std::memcmp(to.data() + 16 + to_at, from.data() + from_at, octets), 0)
          << octets << " octets to " << to_at << " from " << from_at;
      ASSERT_EQ(to[15 + to_at], std::byte{0xee});
      ASSERT_EQ(to[16 + to_at + octets], std::byte{0xee});
    }
  }
}

TEST(CarefulCopy, CopiesMuch) {
  const auto from = pattern(1'000'003);
  std::vector<std::byte> to(from.size() + 2);
  std::vector<std::size_t> lengths{from.size()};
  for (std::size_t octets = kMuch - 10; octets <= kMuch + 140; ++octets) lengths.push_back(octets);
  for (const std::size_t octets : lengths) {
    const std::size_t at = octets % 9 == 0 ? 0 : 1;
    to[at + octets] = std::byte{0xee};
    std::memset(to.data() + at, 0, octets);
    ASSERT_TRUE(careful_copy(to.data() + at, from.data(), octets));
    ASSERT_EQ(std::memcmp(to.data() + at, from.data(), octets), 0) << octets << " octets to " << at;
    ASSERT_EQ(to[at + octets], std::byte{0xee}) << octets;
  }
}

struct Place {
  std::size_t at = 0;
  std::size_t octets = 0;
};

// A thread that polls the last octet then finds the others, and words are stored whole. One store
// across two cache lines would be wrong: a processor may make its two parts visible in any order.
TEST(CarefulCopy, IsSeenFromTheFrontToTheBackAndInWholeWords) {
  for (const Place place : {Place{0, 2}, Place{0, 4}, Place{0, 8}, Place{0, 24}, Place{0, 61},
                            Place{0, 400}, Place{63, 2}, Place{62, 4}, Place{60, 8}}) {
    alignas(64) static std::array<std::byte, 512> room;
    room.fill(std::byte{0});
    std::byte* const shared = room.data() + place.at;
    const std::size_t octets = place.octets;
    std::atomic<bool> over = false;
    std::atomic<int> lap = 0;  // each has 250 rounds; every octet holds the number of its round
    std::thread writer([&] {
      std::vector<std::byte> made(octets);
      for (int round = 0; round < 20'000; ++round) {
        if (round % 250 == 0) lap.fetch_add(1);
        std::memset(made.data(), round % 250, octets);
        ASSERT_TRUE(careful_copy(shared, made.data(), octets));
      }
      over.store(true);
    });
    std::uint64_t torn = 0;
    while (!over.load()) {
      const int before = lap.load();
      const auto last = std::atomic_ref(shared[octets - 1]).load(std::memory_order_acquire);
      const auto first = std::atomic_ref(shared[0]).load(std::memory_order_acquire);
      const bool is_same_lap = lap.load() == before && first != std::byte{0};
      if (is_same_lap && first < last && last < std::byte{249}) ++torn;
      if (place.at == 0 && octets == 4) {
        const auto word = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(shared))
                              .load(std::memory_order_relaxed);
        if (word != (word & 0xff) * 0x0101'0101U) ++torn;
      }
    }
    writer.join();
    EXPECT_EQ(torn, 0U) << octets << " octets at " << place.at;
  }
}

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_sigaction = [](int number, siginfo_t*, void* context) {
      if (resume_careful_copy(context)) return;
      ::signal(number, SIG_DFL);
    };
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(::sigaction(SIGSEGV, &action, &segv_), 0);
    ASSERT_EQ(::sigaction(SIGBUS, &action, &bus_), 0);
    void* at = ::mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(at, MAP_FAILED);
    there_ = static_cast<std::byte*>(at) + kNowhere;
    ASSERT_EQ(::mprotect(there_, kPage, PROT_READ | PROT_WRITE), 0);
  }
  void TearDown() override {
    ::munmap(there_ - kNowhere, kRoom);
    ::sigaction(SIGSEGV, &segv_, nullptr);
    ::sigaction(SIGBUS, &bus_, nullptr);
  }
  static constexpr std::size_t kRoom = kNowhere + kPage + kNowhere;
  std::byte* there_ = nullptr;  // one mapped page between many that are not mapped
  struct sigaction segv_ {};
  struct sigaction bus_ {};
};

/// Every length up to kFew, and some large ones: so each load and each store is interrupted once.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all{100, 255, 256,  257,  263,       264,       265,
                               271, 300, 1000, 5000, kMuch + 8, kMuch + 75};
  for (std::size_t octets = 1; octets <= kFew; ++octets) all.push_back(octets);
  return all;
}

TEST_F(Faults, EndTheCopyWhereverTheyAre) {
  std::vector<std::byte> ours(kNowhere);
  for (const std::size_t octets : lengths()) {
    for (std::size_t there = 0; there < std::min(octets, kFew); ++there) {
      std::byte* const edge = there_ + kPage - there;
      ASSERT_FALSE(careful_copy(edge, ours.data(), octets)) << octets << " to, " << there;
      ASSERT_FALSE(careful_copy(ours.data(), edge, octets)) << octets << " from, " << there;
    }
    if (octets > kPage) continue;
    ASSERT_TRUE(careful_copy(there_ + kPage - octets, ours.data(), octets));
    ASSERT_TRUE(careful_copy(ours.data(), there_ + kPage - octets, octets));
  }
}

// A thread that polls the last octets must not find them, because the others will never come.
TEST_F(Faults, AtTheBeginningKeepTheEndFromBeingSeen) {
  const auto ours = pattern(kNowhere);
  for (const std::size_t octets : lengths()) {
    for (std::size_t there = 1; there < std::min(octets, kFew); ++there) {
      std::byte* const last = there_ + there - 1;
      *last = ~ours[octets - 1];
      ASSERT_FALSE(careful_copy(there_ - (octets - there), ours.data(), octets));
      ASSERT_EQ(*last, ~ours[octets - 1]) << octets << " octets, " << there << " of them there";
    }
  }
}

TEST_F(Faults, OutsideOfACopyAreNotHandled) {
  ucontext_t elsewhere{};
  EXPECT_FALSE(resume_careful_copy(&elsewhere));
}

}  // namespace
}  // namespace verbatim
