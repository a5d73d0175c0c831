// SPDX-License-Identifier: Apache-2.0
#include "wire/crc/crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/prng.h"
#include "wire/crc/crc32_kernels.h"
#include "wire/crc/crc32_tables.h"
#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::Octets;
using test::random;
using test::random_octets;

/// The definition, one bit after the other (IBA Vol 1, 7.8.1).
std::uint32_t bit_by_bit(std::uint32_t state, std::span<const std::byte> octets) {
  for (const std::byte octet : octets) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool carry = ((state ^ (std::to_integer<std::uint32_t>(octet) >> bit)) & 1) != 0;
      state = (state >> 1) ^ (carry ? 0xedb8'8320U : 0U);
    }
  }
  return state;
}

std::vector<const Crc32Kernel*> kernels_of_this_cpu() {
  std::vector<const Crc32Kernel*> kernels{&kPortableCrc32};
  for (const Crc32Kernel& kernel : native_crc32_kernels()) {
    if (kernel.runs_here()) kernels.push_back(&kernel);
  }
  return kernels;
}

// Beyond what one piece of any kernel takes, and a few lengths around each step below.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 1200; ++length) lengths.push_back(length);
  for (const std::size_t around : {2048U, 4096U, 4688U, 4928U, 9376U, 13'000U, 65'536U}) {
    for (std::size_t length = around - 17; length <= around + 17; ++length) {
      lengths.push_back(length);
    }
  }
  return lengths;
}

Octets octets_of(std::string_view text) {
  const auto octets = std::as_bytes(std::span(text));
  return {octets.begin(), octets.end()};
}

TEST(Crc32, HasTheCheckValueOfTheLiterature) {
  for (const Crc32Kernel* kernel : kernels_of_this_cpu()) {
    SCOPED_TRACE(kernel->name);
    const Octets digits = octets_of("123456789");
    EXPECT_EQ(~kernel->update(kCrc32Preset, digits.data(), digits.size()), 0xcbf4'3926U);
  }
  EXPECT_EQ(~crc32_update(kCrc32Preset, octets_of("123456789")), 0xcbf4'3926U);
}

TEST(Crc32, StartsRoceWithTheRegisterAfterEightOnes) {
  EXPECT_EQ(crc32_update(kCrc32Preset, Octets(8, std::byte{0xff})), 0xdebb'20e3U);
}

TEST(Crc32, LeavesTheRegisterAloneOverNothing) {
  for (const Crc32Kernel* kernel : kernels_of_this_cpu()) {
    EXPECT_EQ(kernel->update(0x1234'5678, nullptr, 0), 0x1234'5678U);
    EXPECT_EQ(kernel->copy(0x1234'5678, nullptr, nullptr, 0), 0x1234'5678U);
  }
}

TEST(Crc32, EveryKernelAgreesWithTheDefinitionAtEveryLength) {
  Prng prng(1);
  const Octets source = random_octets(prng, 66'000);
  for (const std::size_t length : lengths()) {
    const auto octets = std::span(source).subspan(prng.below(64), length);
    const auto state = random<std::uint32_t>(prng);
    const std::uint32_t expected = bit_by_bit(state, octets);
    for (const Crc32Kernel* kernel : kernels_of_this_cpu()) {
      ASSERT_EQ(kernel->update(state, octets.data(), length), expected)
          << kernel->name << ", " << length << " octets";
    }
  }
}

TEST(Crc32, ACopyIsTheSameCrcAndTouchesNoNeighbour) {
  constexpr std::byte kUntouched{0x5a};
  Prng prng(2);
  const Octets source = random_octets(prng, 66'000);
  Octets target(66'200);
  for (const std::size_t length : lengths()) {
    const auto octets = std::span(source).subspan(prng.below(64), length);
    const std::size_t at = 64 + prng.below(64);
    const auto state = random<std::uint32_t>(prng);
    const std::uint32_t expected = kPortableCrc32.update(state, octets.data(), length);
    for (const Crc32Kernel* kernel : kernels_of_this_cpu()) {
      SCOPED_TRACE(kernel->name);
      const auto around = std::span(target).first(at + length + 64);
      std::ranges::fill(around, kUntouched);
      ASSERT_EQ(kernel->copy(state, around.data() + at, octets.data(), length), expected) << length;
      const auto untouched = [](std::byte octet) { return octet == kUntouched; };
      ASSERT_TRUE(std::ranges::equal(around.subspan(at, length), octets)) << length;
      ASSERT_TRUE(std::ranges::all_of(around.first(at), untouched)) << length;
      ASSERT_TRUE(std::ranges::all_of(around.last(64), untouched)) << length;

      const auto word = random<std::uint32_t>(prng);
      std::array<std::byte, sizeof word> in_front{};
      std::memcpy(in_front.data(), &word, sizeof word);
      const std::uint32_t behind = kPortableCrc32.update(state, in_front.data(), in_front.size());
      std::ranges::fill(around, kUntouched);
      ASSERT_EQ(kernel->copy_behind(state, word, around.data() + at, octets.data(), length),
                kPortableCrc32.update(behind, octets.data(), length))
          << length;
      ASSERT_TRUE(std::ranges::equal(around.subspan(at, length), octets)) << length;
      ASSERT_TRUE(std::ranges::all_of(around.first(at), untouched)) << length;
      ASSERT_TRUE(std::ranges::all_of(around.last(64), untouched)) << length;
    }
  }
}

// The address sanitizer sees an octet read behind the end of a heap block.
TEST(Crc32, ReadsNothingBehindItsInput) {
  Prng prng(3);
  for (std::size_t length = 0; length < 800; ++length) {
    const Octets exact = random_octets(prng, length);
    Octets target(length);
    const std::uint32_t expected = bit_by_bit(kCrc32Preset, exact);
    for (const Crc32Kernel* kernel : kernels_of_this_cpu()) {
      ASSERT_EQ(kernel->update(kCrc32Preset, exact.data(), length), expected);
      ASSERT_EQ(kernel->copy(kCrc32Preset, target.data(), exact.data(), length), expected);
    }
  }
}

TEST(Crc32, PiecesAreAsGoodAsTheWhole) {
  Prng prng(4);
  for (int round = 0; round < 300; ++round) {
    const Octets whole = random_octets(prng, prng.below(5000));
    Octets target(whole.size());
    std::uint32_t updated = kCrc32Preset;
    std::uint32_t copied = kCrc32Preset;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t octets = prng.between(1, std::min<std::size_t>(whole.size() - at, 700));
      updated = crc32_update(updated, std::span(whole).subspan(at, octets));
      copied = crc32_copy(copied, target.data() + at, std::span(whole).subspan(at, octets));
      at += octets;
    }
    EXPECT_EQ(updated, crc32_update(kCrc32Preset, whole));
    EXPECT_EQ(copied, updated);
    EXPECT_EQ(target, whole);
  }
}

TEST(Crc32, EveryKernelMultipliesAlike) {
  Prng prng(5);
  const std::uint32_t x33 = crc32_field::power_of_x(33);
  for (int round = 0; round < 1000; ++round) {
    const auto a = random<std::uint32_t>(prng);
    const auto b = random<std::uint32_t>(prng);
    const std::uint32_t expected = crc32_field::product(crc32_field::product(a, b), x33);
    for (const Crc32Kernel* kernel : kernels_of_this_cpu()) {
      ASSERT_EQ(kernel->multiply(a, b), expected) << kernel->name;
    }
  }
}

TEST(Crc32, JumpsOverZeroesForwardsAndBackwards) {
  Prng prng(6);
  const Octets zeroes(kCrc32MaxZeroes);
  for (std::size_t octets = 0; octets <= kCrc32MaxZeroes; octets += prng.below(100)) {
    const auto state = random<std::uint32_t>(prng);
    const std::uint32_t after = crc32_update(state, std::span(zeroes).first(octets));
    ASSERT_EQ(crc32_before_zeroes(after, octets), state) << octets;
    ASSERT_EQ(crc32_after_zeroes(state, octets), after) << octets;
  }
  EXPECT_EQ(crc32_before_zeroes(crc32_update(1, zeroes), kCrc32MaxZeroes), 1U);
}

TEST(Crc32, UsesTheFirstKernelThatRunsHere) {
  const auto kernels = kernels_of_this_cpu();
  const Crc32Kernel* fastest = kernels.size() > 1 ? kernels[1] : kernels[0];
  EXPECT_STREQ(crc32_implementation(), fastest->name);
}

}  // namespace
}  // namespace verbatim::wire
