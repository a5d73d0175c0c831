// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/extension_headers.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::first;
using test::hex;
using test::Octets;

TEST(Deth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(Deth{.qkey = QKey::kGsi, .source_qp = QpNumber{0x123456}}),
            hex("80010000 00 123456"));
  const Deth deth = Deth::from(first<8>(hex("11223344 ff abcdef")));
  EXPECT_EQ(deth.qkey, QKey{0x11223344});
  EXPECT_EQ(deth.source_qp, QpNumber{0xabcdef}) << "the reserved octet is not part of it";
}

TEST(XrcEth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(XrcEth{.srq = SrqNumber{0x00fedcba}}), hex("00 fedcba"));
  EXPECT_EQ(XrcEth::from(first<4>(hex("ff 000102"))).srq, SrqNumber{0x000102});
}

TEST(Reth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(
      emitted(Reth{
          .address = 0x01710a1c015d4002, .rkey = MemoryKey{0x38f27a05}, .dma_octets = 0x0000000e}),
      hex("01710a1c015d4002 38f27a05 0000000e"));
  const Reth reth = Reth::from(first<16>(hex("ffffffffffffffff 00000001 80000000")));
  EXPECT_EQ(reth.address, 0xffff'ffff'ffff'ffffU);
  EXPECT_EQ(reth.rkey, MemoryKey{1});
  EXPECT_EQ(reth.dma_octets, 0x8000'0000U);
}

TEST(AtomicEth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(AtomicEth{.address = 0x1000,
                              .rkey = MemoryKey{0xaabbccdd},
                              .swap_or_add = 0x0102030405060708,
                              .compare = 0x1112131415161718}),
            hex("0000000000001000 aabbccdd 0102030405060708 1112131415161718"));
  const AtomicEth atomic = AtomicEth::from(
      first<28>(hex("2122232425262728 31323334 4142434445464748 5152535455565758")));
  EXPECT_EQ(atomic.address, 0x2122'2324'2526'2728U);
  EXPECT_EQ(atomic.rkey, MemoryKey{0x31323334});
  EXPECT_EQ(atomic.swap_or_add, 0x4142'4344'4546'4748U);
  EXPECT_EQ(atomic.compare, 0x5152'5354'5556'5758U);
}

TEST(AtomicAckEth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(AtomicAckEth{.original = 0x0102030405060708}), hex("0102030405060708"));
  EXPECT_EQ(AtomicAckEth::from(first<8>(hex("fffefdfcfbfaf9f8"))).original, 0xfffe'fdfc'fbfa'f9f8U);
}

TEST(ImmDt, IsMovedAndNotSwapped) {
  const std::uint8_t network[4] = {0xde, 0xad, 0xbe, 0xef};
  Immediate immediate{};
  std::memcpy(&immediate, network, sizeof immediate);
  EXPECT_EQ(emitted(ImmDt{.immediate = immediate}), hex("deadbeef"));
  EXPECT_EQ(ImmDt::from(first<4>(hex("deadbeef"))).immediate, immediate);
}

TEST(Ieth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(Ieth{.rkey = MemoryKey{0x00c0ffee}}), hex("00c0ffee"));
  EXPECT_EQ(Ieth::from(first<4>(hex("80000001"))).rkey, MemoryKey{0x80000001});
}

TEST(Feth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(Feth{.selectivity = Feth::kWholeRegion, .placement = Feth::kPersistence}),
            hex("00000012"));
  EXPECT_EQ(emitted(Feth{}), hex("00000001"));
  const Feth feth = Feth::from(first<4>(hex("ffffffd3")));
  EXPECT_EQ(feth.selectivity, Feth::kWholeRegion);
  EXPECT_EQ(feth.placement, 3);
}

/// Any octets, read and written again, are the same but for the bits that are reserved.
template <typename Header>
void check_round_trip(std::string_view defined_bits) {
  const Octets mask = hex(defined_bits);
  ASSERT_EQ(mask.size(), Header::kSize);
  Prng prng(4);
  for (int i = 0; i < 1000; ++i) {
    Octets octets = test::random_octets(prng, Header::kSize);
    const Header header = Header::from(first<Header::kSize>(octets));
    for (std::size_t at = 0; at < octets.size(); ++at) octets[at] &= mask[at];
    EXPECT_EQ(emitted(header), octets);
  }
}

TEST(ExtensionHeaders, SurviveTheRoundTrip) {
  check_round_trip<Deth>("ffffffff 00ffffff");
  check_round_trip<XrcEth>("00ffffff");
  check_round_trip<Reth>("ffffffffffffffff ffffffff ffffffff");
  check_round_trip<AtomicEth>("ffffffffffffffff ffffffff ffffffffffffffff ffffffffffffffff");
  check_round_trip<AtomicAckEth>("ffffffffffffffff");
  check_round_trip<ImmDt>("ffffffff");
  check_round_trip<Ieth>("ffffffff");
  check_round_trip<Feth>("0000003f");
}

}  // namespace
}  // namespace verbatim::wire
