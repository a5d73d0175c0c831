// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_network_number.h"

#include <gtest/gtest.h>

#include <optional>

namespace verbatim::host {
namespace {

// Numbers that no fabric has.
constexpr FabricNetworkNumber::Range kRange{.first = 900, .last = 902};

TEST(FabricNetworkNumber, EachFabricHasItsOwnAndAnEndedOneLeavesIts) {
  FabricNetworkNumber first;
  std::optional<FabricNetworkNumber> second(std::in_place);
  FabricNetworkNumber third;
  first.take(kRange);
  second->take(kRange);
  EXPECT_EQ(first.number(), 900U);
  EXPECT_EQ(second->number(), 901U);
  second.reset();
  third.take(kRange);
  EXPECT_EQ(third.number(), 901U);
}

TEST(FabricNetworkNumber, WhereAllAreTakenItIsTheFirst) {
  FabricNetworkNumber one;
  FabricNetworkNumber other;
  one.take({.first = 905, .last = 905});
  other.take({.first = 905, .last = 905});
  EXPECT_EQ(other.number(), 905U);
}

}  // namespace
}  // namespace verbatim::host
