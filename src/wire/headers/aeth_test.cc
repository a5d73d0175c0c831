// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/aeth.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::first;
using test::hex;
using Kind = Syndrome::Kind;

TEST(Syndrome, IsWhatTheResponderMeans) {
  EXPECT_EQ(Syndrome::ack().raw(), 0x1f);
  EXPECT_EQ(Syndrome::rnr(12).raw(), 0x2c);
  EXPECT_EQ(Syndrome::rnr(0).raw(), 0x20);
  EXPECT_EQ(Syndrome::nak(Syndrome::Nak::kSequence).raw(), 0x60);
  EXPECT_EQ(Syndrome::nak(Syndrome::Nak::kInvalidRequest).raw(), 0x61);
  EXPECT_EQ(Syndrome::nak(Syndrome::Nak::kRemoteAccess).raw(), 0x62);
  EXPECT_EQ(Syndrome::nak(Syndrome::Nak::kRemoteOperation).raw(), 0x63);
  EXPECT_EQ(Syndrome::nak(Syndrome::Nak::kInvalidRd).raw(), 0x64);
}

TEST(Syndrome, EveryValueHasItsKindAndCode) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const Syndrome syndrome(static_cast<std::uint8_t>(raw));
    Kind kind = Kind::kReserved;
    if (raw <= 0x1f) kind = Kind::kAck;
    if (raw >= 0x20 && raw <= 0x3f) kind = Kind::kRnrNak;
    if (raw >= 0x60 && raw <= 0x7f) kind = Kind::kNak;
    EXPECT_EQ(syndrome.kind(), kind) << raw;
    EXPECT_EQ(syndrome.code(), raw % 32) << raw;
    EXPECT_EQ(syndrome.raw(), raw);
    EXPECT_EQ(syndrome.is_defined_nak(), raw >= 0x60 && raw <= 0x64) << raw;
  }
}

TEST(CreditCodes, AreThoseOfTheSpecification) {
  constexpr unsigned kCredits[] = {
      /* 00 */ 0,    1,    2,    3,     4,     6,     8,    12,    //
      /* 08 */ 16,   24,   32,   48,    64,    96,    128,  192,   //
      /* 10 */ 256,  384,  512,  768,   1024,  1536,  2048, 3072,  //
      /* 18 */ 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  static_assert(std::size(kCredits) == 31);
  ASSERT_EQ(kCreditCodes.size(), std::size(kCredits));
  for (std::size_t code = 0; code < kCreditCodes.size(); ++code) {
    EXPECT_EQ(kCreditCodes[code], kCredits[code]) << code;
  }
}

TEST(RnrTimer, WaitsAsTheTableSays) {
  constexpr double kMilliseconds[] = {655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
                                      0.16,   0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
                                      2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                      40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  static_assert(std::size(kMilliseconds) == 32);
  for (std::uint8_t code = 0; code < 32; ++code) {
    const double waited = std::chrono::duration<double, std::milli>(rnr_delay(code)).count();
    EXPECT_DOUBLE_EQ(waited, kMilliseconds[code]) << int{code};
  }
}

TEST(RnrTimer, TakesFiveBitsOfWhateverItIsGiven) { EXPECT_EQ(rnr_delay(0x20 | 7), rnr_delay(7)); }

TEST(Aeth, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(emitted(Aeth{.syndrome = Syndrome(0x62), .msn = 0x00abcdef}), hex("62 abcdef"));
  EXPECT_EQ(emitted(Aeth{.syndrome = Syndrome(0x1f), .msn = 0x12000001}), hex("1f 000001"));
  const Aeth aeth = Aeth::from(first<4>(hex("2c 010203")));
  EXPECT_EQ(aeth.syndrome, Syndrome::rnr(12));
  EXPECT_EQ(aeth.msn, 0x010203U);
}

TEST(Aeth, SurvivesTheRoundTrip) {
  Prng prng(3);
  for (int i = 0; i < 1000; ++i) {
    const auto octets = test::random_octets(prng, Aeth::kSize);
    EXPECT_EQ(emitted(Aeth::from(first<4>(octets))), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire
