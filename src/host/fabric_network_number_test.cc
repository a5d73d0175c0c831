// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_network_number.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "host/fabric_place.h"
#include "host/test_process.h"

namespace verbatim::host {
namespace {

// Numbers that no fabric has.
constexpr FabricNetworkNumber::Range kRange{.first = 900, .last = 902};

TEST(FabricNetworkNumber, EachFabricHasItsOwnAndAnEndedOneLeavesIts) {
  test::in_a_private_network([] {
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
  });
}

TEST(FabricNetworkNumber, LeavesNoFile) {
  test::in_a_private_network([] {
    std::string unsaid;
    const auto folder = FabricPlace::make_common_folder(unsaid);
    ASSERT_TRUE(folder.ok()) << unsaid;
    const std::string file = *folder + "/.network-900";
    {
      FabricNetworkNumber one;
      one.take(kRange);
      EXPECT_EQ(::access(file.c_str(), F_OK), 0);
    }
    EXPECT_NE(::access(file.c_str(), F_OK), 0);
  });
}

TEST(FabricNetworkNumber, WhereAllAreTakenItIsTheFirst) {
  test::in_a_private_network([] {
    FabricNetworkNumber one;
    FabricNetworkNumber other;
    one.take({.first = 905, .last = 905});
    other.take({.first = 905, .last = 905});
    EXPECT_EQ(other.number(), 905U);
  });
}

}  // namespace
}  // namespace verbatim::host
