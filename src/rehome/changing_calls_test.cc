// SPDX-License-Identifier: Apache-2.0
#include "rehome/changing_calls.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <string>
#include <vector>

namespace verbatim::rehome {
namespace {

constexpr std::uintptr_t kBreak = 0x9000'0000;

std::string line(long call, const std::vector<std::uint64_t>& arguments) {
  std::string text = std::to_string(call);
  for (std::size_t i = 0; i < 8; ++i) {
    char word[32];
    std::snprintf(word, sizeof word, " 0x%lx", i < arguments.size() ? arguments[i] : 0UL);
    text += word;
  }
  return text + "\n";
}

std::optional<ChangingCall> parse(const std::string& text, Range* target = nullptr) {
  Range ignored;
  return parse_changing_call(text, kBreak, target == nullptr ? &ignored : target);
}

TEST(ChangingCall, IsOneThatUnmaps) {
  const auto unmap = parse(line(SYS_munmap, {0x10000, 0x1001}));
  ASSERT_TRUE(unmap);
  EXPECT_EQ(unmap->change, Change::kUnmaps);
  EXPECT_EQ(unmap->range, (Range{.begin = 0x10000, .end = 0x12000}));
  const auto map = parse(line(SYS_mmap, {0x10000, 0x1000, PROT_READ, MAP_PRIVATE | MAP_FIXED}));
  ASSERT_TRUE(map);
  EXPECT_EQ(map->change, Change::kUnmaps);
  EXPECT_FALSE(parse(line(SYS_mmap, {0x10000, 0x1000, PROT_READ, MAP_PRIVATE}))) << "only a hint";
}

TEST(ChangingCall, IsOneThatMovesPagesAway) {
  Range target;
  const auto move = parse(
      line(SYS_mremap, {0x10000, 0x2000, 0x3000, MREMAP_MAYMOVE | MREMAP_FIXED, 0x50000}), &target);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->change, Change::kMovesAway);
  EXPECT_EQ(move->range, (Range{.begin = 0x10000, .end = 0x12000}));
  EXPECT_EQ(target, (Range{.begin = 0x50000, .end = 0x53000}));
  EXPECT_TRUE(parse(line(SYS_mremap, {0x10000, 0x2000, 0x3000, MREMAP_MAYMOVE}), &target));
  EXPECT_TRUE(target.empty());
  const auto copy =
      parse(line(SYS_mremap, {0x10000, 0x2000, 0x2000, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0}));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->change, Change::kMovesAwayAndStays);
}

TEST(ChangingCall, IsOneThatShrinksMemoryInPlace) {
  const auto shrink = parse(line(SYS_mremap, {0x10000, 0x5000, 0x1001, MREMAP_MAYMOVE}));
  ASSERT_TRUE(shrink);
  EXPECT_EQ(shrink->change, Change::kUnmaps);
  EXPECT_EQ(shrink->range, (Range{.begin = 0x12000, .end = 0x15000}));
}

TEST(ChangingCall, IsOneThatEmpties) {
  const auto empty = parse(line(SYS_madvise, {0x10000, 0x1000, MADV_DONTNEED}));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->change, Change::kEmpties);
  EXPECT_FALSE(parse(line(SYS_madvise, {0x10000, 0x1000, MADV_WILLNEED})));
}

TEST(ChangingCall, IsAHeapThatShrinks) {
  const auto shrink = parse(line(SYS_brk, {kBreak - 0x3000}));
  ASSERT_TRUE(shrink);
  EXPECT_EQ(shrink->range, (Range{.begin = kBreak - 0x3000, .end = kBreak}));
  EXPECT_FALSE(parse(line(SYS_brk, {kBreak + 0x3000})));
  EXPECT_FALSE(parse(line(SYS_brk, {0})).has_value() && kBreak == 0);
}

TEST(ChangingCall, IsNoOtherText) {
  for (const char* text : {"", "running\n", "-1 0x7ffd 0x7f12\n", "215\n", "215 0x\n"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
  EXPECT_FALSE(parse(line(SYS_read, {0x10000, 0x1000})));
}

}  // namespace
}  // namespace verbatim::rehome
