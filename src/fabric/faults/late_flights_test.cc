// SPDX-License-Identifier: Apache-2.0
#include "fabric/faults/late_flights.h"

#include <gtest/gtest.h>

namespace verbatim::fabric {
namespace {

Instant at_us(int us) { return Instant::at(std::chrono::microseconds(us)); }

std::uint8_t hops_of(const LateFlights::Any& flight) {
  return std::visit([](const auto& each) { return each.hops; }, flight);
}

TEST(LateFlights, TheyArriveInTheOrderOfTheirTimes) {
  LateFlights late;
  EXPECT_EQ(late.next_due(), Instant::never());
  late.add(DataFlight{.due = at_us(30), .hops = 3});
  late.add(Flight{.due = at_us(10), .hops = 1});
  late.add(DataFlight{.due = at_us(20), .hops = 2});
  for (const int expected : {1, 2, 3}) {
    EXPECT_EQ(late.next_due(), at_us(10 * expected));
    EXPECT_EQ(int{hops_of(late.take())}, expected);
  }
  EXPECT_EQ(late.size(), 0U);
}

TEST(LateFlights, ThoseOfOneTimeKeepTheirOrder) {
  LateFlights late;
  for (std::uint8_t number = 0; number < 50; ++number) {
    late.add(DataFlight{.due = at_us(1), .hops = number});
  }
  for (std::uint8_t number = 0; number < 50; ++number) EXPECT_EQ(hops_of(late.take()), number);
}

}  // namespace
}  // namespace verbatim::fabric
