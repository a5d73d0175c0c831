// SPDX-License-Identifier: Apache-2.0
#include "wire/crc/vcrc.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/prng.h"
#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;
using test::random;
using test::random_octets;

/// The definition, one bit after the other (IBA Vol 1, 7.8.2).
std::uint16_t bit_by_bit(std::uint16_t state, std::span<const std::byte> octets) {
  unsigned shifted = state;
  for (const std::byte octet : octets) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      const bool carry = ((shifted ^ (std::to_integer<unsigned>(octet) >> bit)) & 1) != 0;
      shifted = (shifted >> 1) ^ (carry ? 0xd008U : 0U);
    }
  }
  return static_cast<std::uint16_t>(shifted);
}

Octets vcrc_octets(const Octets& covered) {
  const auto vcrc = vcrc_of(covered);
  return {vcrc.begin(), vcrc.end()};
}

// The sample packet of the specification (chapter 7), on virtual lane 7.
TEST(Vcrc, HasTheValueOfTheSpecificationsSamplePacket) {
  const Octets packet =
      hex("7012375c000e17d2 0a20248700 87b1b3 000dec2a 01710a1c015d4002 38f27a05 0000000e"
          "bb884d85fd5cfba4728bc0690ed4 0000 9625b75a");
  EXPECT_EQ(vcrc_octets(packet), hex("45fa"));
}

// Flow control packets: operation, total blocks sent, lane, credit limit, LPCRC.
TEST(Vcrc, IsTheLpcrcOfLinkPackets) {
  EXPECT_EQ(vcrc_octets(hex("10000080")), hex("50d5"));
  EXPECT_EQ(vcrc_octets(hex("012301a3")), hex("6411"));
  EXPECT_EQ(vcrc_octets(hex("0fff307f")), hex("a0e2"));
}

TEST(Vcrc, AgreesWithTheDefinitionAtEveryLength) {
  Prng prng(1);
  for (std::size_t length = 0; length <= 600; ++length) {
    const Octets octets = random_octets(prng, length);
    const auto state = random<std::uint16_t>(prng);
    ASSERT_EQ(vcrc_update(state, octets), bit_by_bit(state, octets)) << length;
  }
}

TEST(Vcrc, PiecesAreAsGoodAsTheWhole) {
  Prng prng(2);
  const Octets whole = random_octets(prng, 300);
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const auto front = vcrc_update(kVcrcPreset, std::span(whole).first(cut));
    ASSERT_EQ(vcrc_update(front, std::span(whole).subspan(cut)), vcrc_update(kVcrcPreset, whole));
  }
}

TEST(Vcrc, DetectsEverySingleBit) {
  Prng prng(3);
  Octets packet = random_octets(prng, 300);
  const Octets expected = vcrc_octets(packet);
  for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    packet[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(vcrc_octets(packet), expected) << bit;
    packet[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Vcrc, IsKnownToTheCompiler) {
  constexpr std::array<std::byte, 4> kCredits{std::byte{0x10}, std::byte{0}, std::byte{0},
                                              std::byte{0x80}};
  static_assert(vcrc_of(kCredits) == std::array{std::byte{0x50}, std::byte{0xd5}});
}

}  // namespace
}  // namespace verbatim::wire
