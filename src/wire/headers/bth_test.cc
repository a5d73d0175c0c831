// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/bth.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::hex;

TEST(Bth, IsWrittenAsTheFigureShows) {
  EXPECT_EQ(emitted(Bth{.opcode = Opcode{0x0a},
                        .pad_count = 2,
                        .pkey = PKey{0x2487},
                        .dest_qp = QpNumber{0x87b1b3},
                        .psn = Psn(0x0dec2a)}),
            hex("0a 20 2487 00 87b1b3 00 0dec2a"));
  EXPECT_EQ(emitted(Bth{.opcode = Opcode{0x04},
                        .solicited = true,
                        .migrated = true,
                        .pad_count = 3,
                        .fecn = true,
                        .becn = true,
                        .dest_qp = QpNumber{0x000011},
                        .ack_request = true,
                        .psn = Psn(0xffffff)}),
            hex("04 f0 ffff c0 000011 80 ffffff"));
}

TEST(Bth, EachFlagHasItsOwnBit) {
  EXPECT_EQ(emitted(Bth{.solicited = true, .pkey = PKey{}}), hex("00 80 0000 00000000 00000000"));
  EXPECT_EQ(emitted(Bth{.migrated = true, .pkey = PKey{}}), hex("00 40 0000 00000000 00000000"));
  EXPECT_EQ(emitted(Bth{.pad_count = 1, .pkey = PKey{}}), hex("00 10 0000 00000000 00000000"));
  EXPECT_EQ(emitted(Bth{.pkey = PKey{}, .fecn = true}), hex("00 00 0000 80000000 00000000"));
  EXPECT_EQ(emitted(Bth{.pkey = PKey{}, .becn = true}), hex("00 00 0000 40000000 00000000"));
  EXPECT_EQ(emitted(Bth{.pkey = PKey{}, .ack_request = true}), hex("00 00 0000 00000000 80000000"));
}

TEST(BthView, ReadsEveryFieldAndIgnoresReservedBits) {
  const auto octets = hex("11 b0 8001 bf 123456 ff 654321");
  const auto view = BthView::parse(octets);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->opcode(), Opcode{0x11});
  EXPECT_TRUE(view->solicited());
  EXPECT_FALSE(view->migrated());
  EXPECT_EQ(view->pad_count(), 3);
  EXPECT_EQ(view->pkey(), PKey{0x8001});
  EXPECT_TRUE(view->fecn());
  EXPECT_FALSE(view->becn());
  EXPECT_EQ(view->dest_qp(), QpNumber{0x123456});
  EXPECT_TRUE(view->ack_request());
  EXPECT_EQ(view->psn(), Psn(0x654321));
  EXPECT_EQ(emitted(view->value()), hex("11 b0 8001 80 123456 80 654321"));
}

TEST(BthView, RefusesEveryTransportVersionButZero) {
  for (unsigned version = 0; version < 16; ++version) {
    auto octets = hex("04 f0 ffff 00000011 00000001");
    octets[1] |= static_cast<std::byte>(version);
    const auto view = BthView::parse(octets);
    EXPECT_EQ(view.ok(), version == 0) << version;
    if (!view) {
      EXPECT_EQ(view.error(), WireError::kBadVersion);
    }
  }
}

TEST(BthView, RefusesEveryTruncation) {
  const auto octets = hex("04 00 ffff 00000011 00000001");
  for (std::size_t size = 0; size < octets.size(); ++size) {
    const auto view = BthView::parse(std::span(octets).first(size));
    ASSERT_FALSE(view) << size;
    EXPECT_EQ(view.error(), WireError::kTruncated);
  }
}

TEST(Bth, SurvivesTheRoundTrip) {
  Prng prng(2);
  for (int i = 0; i < 10'000; ++i) {
    auto octets = test::random_octets(prng, Bth::kSize);
    octets[1] &= std::byte{0xf0};
    octets[4] &= std::byte{0xc0};
    octets[8] &= std::byte{0x80};
    const auto view = BthView::parse(octets);
    ASSERT_TRUE(view);
    EXPECT_EQ(emitted(view->value()), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire
