// SPDX-License-Identifier: Apache-2.0
#include "wire/management/multicast_record.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

MulticastRecord example() {
  return {.group = test::gid("ff12401bffff000000000000e0010203"),
          .port_gid = test::gid("31323334353637383940414243444546"),
          .qkey = QKey{0x01234567},
          .lid = Lid{0xc001},
          .mtu_selector = RecordSelector::kExactly,
          .mtu = PathMtu::k2048,
          .traffic_class = 0x54,
          .pkey = PKey{0x8657},
          .rate_selector = RecordSelector::kLess,
          .rate = 0x03,
          .life_time_selector = RecordSelector::kLargest,
          .life_time = 0x12,
          .level = ServiceLevel{0x9},
          .flow_label = 0xa1627,
          .hop_limit = 0x53,
          .scope = 2,
          .join_state = JoinState::kFullMember,
          .is_proxy_join = true};
}
test::Octets example_octets() {
  return test::hex(
      "ff12401bffff000000000000e0010203 31323334353637383940414243444546"
      "01234567 c001 84 54 8657 43 d2 9a162753 21 80 000000000000");
}

TEST(MulticastRecord, IsWrittenAndReadAsTheFigureShows) {
  EXPECT_EQ(test::emitted(example()), example_octets());
  EXPECT_EQ(MulticastRecord::from(test::first<MulticastRecord::kSize>(example_octets())),
            example());
}

TEST(MulticastRecord, AnyOctetsAreSomeValueThatIsWrittenAgain) {
  Prng prng(1);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, MulticastRecord::kSize);
    octets[49] &= std::byte{0x80};  // reserved
    std::fill(octets.begin() + 50, octets.end(), std::byte{0});
    const auto record = MulticastRecord::from(test::first<MulticastRecord::kSize>(octets));
    EXPECT_EQ(test::emitted(record), octets);
  }
}

TEST(JoinState, IsBits) {
  EXPECT_TRUE(has_any(JoinState{9}, JoinState::kFullMember));
  EXPECT_FALSE(has_any(JoinState::kSendOnlyFullMember, JoinState::kFullMember));
}

}  // namespace
}  // namespace verbatim::wire
