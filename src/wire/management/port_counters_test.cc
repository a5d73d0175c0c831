// SPDX-License-Identifier: Apache-2.0
#include "wire/management/port_counters.h"

#include <gtest/gtest.h>

#include <vector>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;

/// Each counter of the table with the value that `values` has for it.
template <typename Fields>
test::Octets written(const Fields& fields, const std::vector<std::uint64_t>& values,
                     std::size_t octets) {
  test::Octets data(octets);
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i].emit(values[i], data);
  return data;
}

template <typename Fields>
std::vector<std::uint64_t> read(const Fields& fields, const test::Octets& data) {
  std::vector<std::uint64_t> values;
  for (const CounterField& field : fields) values.push_back(field.from(data));
  return values;
}

TEST(PortCounters, AreWrittenAndReadAsTheFigureShows) {
  const std::vector<std::uint64_t> values{0x0102,     0x03,       0x04, 0x0506, 0x0708, 0x090a,
                                          0x0b0c,     0x0d,       0x0e, 0xf,    0x1,    0x1112,
                                          0x21222324, 0x31323334, 0x41, 0x51,   0x61};
  const auto octets =
      hex("00 00 0000 0102 03 04 0506 0708 090a 0b0c 0d 0e 00 f1 0000 1112"
          "21222324 31323334 00000041 00000051 00000061");
  EXPECT_EQ(written(kPortCounterFields, values, octets.size()), octets);
  EXPECT_EQ(read(kPortCounterFields, octets), values);
}

TEST(PortCounters, ExtendedOnesHaveSixtyFourBits) {
  const std::vector<std::uint64_t> values{0x0102030405060708, 2, 3, 4, 5, 6, 7, ~0ULL};
  const auto octets =
      hex("00 00 0000 00000000 0102030405060708 0000000000000002 0000000000000003 0000000000000004"
          "0000000000000005 0000000000000006 0000000000000007 ffffffffffffffff");
  EXPECT_EQ(written(kExtendedCounterFields, values, octets.size()), octets);
  EXPECT_EQ(read(kExtendedCounterFields, octets), values);
}

TEST(PortCounters, DetailsFollowEachOther) {
  EXPECT_EQ(written(kReceiveErrorFields, {1, 2, 3, 4, 5, 6}, 16),
            hex("00 00 0000 0001 0002 0003 0004 0005 0006"));
  EXPECT_EQ(written(kTransmitDiscardFields, {1, 2, 3, 4}, 12),
            hex("00 00 0000 0001 0002 0003 0004"));
}

TEST(PortCounters, ACounterThatDoesNotFitStaysAtItsLimit) {
  test::Octets data(44);
  for (const CounterField& field : kPortCounterFields) field.emit(~0ULL, data);
  for (const CounterField& field : kPortCounterFields) {
    EXPECT_EQ(field.from(data), field.limit());
  }
  EXPECT_EQ(kPortCounterFields[2].limit(), 0xffU);
  EXPECT_EQ(kPortCounterFields[9].limit(), 0xfU);
}

}  // namespace
}  // namespace verbatim::wire
