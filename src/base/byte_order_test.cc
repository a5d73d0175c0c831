// SPDX-License-Identifier: Apache-2.0
#include "base/byte_order.h"

#include <gtest/gtest.h>

#include <array>

#include "base/prng.h"

namespace verbatim {
namespace {

constexpr std::array<std::byte, 10> kCounting = {
    std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
    std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}, std::byte{9}};

TEST(ByteOrder, TheFirstOctetIsTheMostSignificant) {
  const std::span<const std::byte, 10> octets(kCounting);
  EXPECT_EQ((load_be<std::uint8_t, 9>(octets)), 9);
  EXPECT_EQ((load_be<std::uint16_t, 1>(octets)), 0x0102);
  EXPECT_EQ((load_be<std::uint32_t, 3>(octets)), 0x0304'0506U);
  EXPECT_EQ((load_be<std::uint64_t, 2>(octets)), 0x0203'0405'0607'0809U);
}

TEST(ByteOrder, StoresTouchTheirOwnOctetsOnly) {
  std::array<std::byte, 6> octets;
  octets.fill(std::byte{0xee});
  store_be<std::uint32_t, 1>(std::span<std::byte, 6>(octets), 0x1122'3344U);
  const std::array<std::byte, 6> expected = {std::byte{0xee}, std::byte{0x11}, std::byte{0x22},
                                             std::byte{0x33}, std::byte{0x44}, std::byte{0xee}};
  EXPECT_EQ(octets, expected);
}

TEST(ByteOrder, AtAnAddressItIsTheSame) {
  EXPECT_EQ(load_be_at<std::uint16_t>(kCounting.data() + 3), 0x0304);
  std::array<std::byte, 8> octets{};
  store_be_at<std::uint64_t>(octets.data(), 0x0102'0304'0506'0708U);
  EXPECT_EQ(octets[0], std::byte{1});
  EXPECT_EQ(octets[7], std::byte{8});
}

TEST(ByteOrder, ThereAndBackIsTheSameNumber) {
  static_assert(big_endian(big_endian(std::uint16_t{0x1234})) == 0x1234);
  Prng prng(1);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = prng.next();
    std::array<std::byte, 8> octets{};
    store_be_at(octets.data(), value);
    EXPECT_EQ(load_be_at<std::uint64_t>(octets.data()), value);
    EXPECT_EQ(big_endian(big_endian(static_cast<std::uint32_t>(value))),
              static_cast<std::uint32_t>(value));
  }
}

}  // namespace
}  // namespace verbatim
