// SPDX-License-Identifier: Apache-2.0
#include "wire/management/path_record.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

PathRecord example() {
  return {.service = ServiceId{0x0102030405060708},
          .destination_gid = test::gid("11121314151617181920212223242526"),
          .source_gid = test::gid("31323334353637383940414243444546"),
          .destination = Lid{0x4748},
          .source = Lid{0x4950},
          .is_raw = true,
          .flow_label = 0x51627,
          .hop_limit = 0x53,
          .traffic_class = 0x54,
          .is_reversible = true,
          .path_count = 0x15,
          .pkey = PKey{0x5657},
          .qos_class = 0x585,
          .level = ServiceLevel{0x9},
          .mtu_selector = RecordSelector::kExactly,
          .mtu = PathMtu::k4096,
          .rate_selector = RecordSelector::kLess,
          .rate = 0x10,
          .life_time_selector = RecordSelector::kLargest,
          .life_time = 0x12,
          .preference = 0x60};
}
test::Octets example_octets() {
  // 0x80051627 53: raw, reserved, flow label, hop limit. 2 and 5, 1 and 16, 3 and 18 in one octet.
  return test::hex(
      "0102030405060708 11121314151617181920212223242526 31323334353637383940414243444546"
      "4748 4950 85162753 54 95 5657 5859 85 50 d2 60 000000000000");
}

TEST(PathRecord, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(test::emitted(example()), example_octets());
  EXPECT_EQ(PathRecord::from(test::first<PathRecord::kSize>(example_octets())), example());
}

TEST(PathRecord, OfOpensmIsUnderstood) {
  // The answer of OpenSM 3.3.23 for two hosts behind two switches: LIDs 4 and 6, 100 Gb/s, 4096.
  const auto octets = test::hex(
      "0000000000000000 fe800000000000000002c90300000006 fe800000000000000002c90300000004"
      "0006 0004 00000000 00 80 ffff 0000 85 90 92 00 000000000000");
  const auto record = PathRecord::from(test::first<PathRecord::kSize>(octets));
  EXPECT_EQ(record.destination, Lid{6});
  EXPECT_EQ(record.source, Lid{4});
  EXPECT_TRUE(record.is_reversible);
  EXPECT_EQ(record.pkey, PKey::kDefault);
  EXPECT_EQ(record.mtu, PathMtu::k4096);
  EXPECT_EQ(record.rate, 16);
  EXPECT_EQ(record.life_time, 18);
}

TEST(PathRecord, NumbersThatAreTooLongDoNotReachTheirNeighbours) {
  PathRecord record;
  record.flow_label = 0xffff'ffff;
  record.path_count = 0xff;
  record.rate = 0xff;
  record.life_time = 0xff;
  const auto again = PathRecord::from(test::first<PathRecord::kSize>(test::emitted(record)));
  EXPECT_FALSE(again.is_raw);
  EXPECT_FALSE(again.is_reversible);
  EXPECT_EQ(again.rate_selector, RecordSelector::kGreater);
  EXPECT_EQ(again.life_time_selector, RecordSelector::kGreater);
}

TEST(PathRecord, AnyOctetsAreSomeValueThatIsWrittenAgain) {
  Prng prng(1);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, PathRecord::kSize);
    octets[44] &= std::byte{0x8f};  // reserved
    std::fill(octets.begin() + 58, octets.end(), std::byte{0});
    const auto record = PathRecord::from(test::first<PathRecord::kSize>(octets));
    EXPECT_EQ(test::emitted(record), octets);
  }
}

}  // namespace
}  // namespace verbatim::wire
