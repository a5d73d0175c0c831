// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/port_set.h"

#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"

namespace verbatim::fabric {
namespace {

TEST(PortSet, ItHasWhatWasAddedAndNotRemoved) {
  Prng prng(1);
  PortSet ports;
  std::set<std::uint8_t> expected;
  EXPECT_TRUE(ports.empty());
  for (int step = 0; step < 300; ++step) {
    const auto port = static_cast<std::uint8_t>(prng.next());
    if (prng.one_in(3)) {
      ports.remove(port);
      expected.erase(port);
    } else {
      ports.add(port);
      expected.insert(port);
    }
    ASSERT_EQ(ports.contains(port), expected.contains(port));
    ASSERT_EQ(ports.empty(), expected.empty());
  }
  for (const std::uint8_t port : expected) EXPECT_EQ(ports.take_first(), port);
  EXPECT_FALSE(ports.take_first());
}

TEST(PortSet, AGroupHasSixteenPorts) {
  PortSet ports;
  ports.add_group(0, 0x8001);
  ports.add_group(5, 0x0002);
  ports.add_group(15, 0x8000);
  for (const int port : {0, 15, 81, 255}) EXPECT_EQ(ports.take_first(), port);
  EXPECT_TRUE(ports.empty());
}

TEST(PortSet, ItCanBeCutOffBehindAnyPort) {
  for (unsigned last = 0; last < 256; ++last) {
    PortSet ports;
    for (unsigned port = 0; port < 256; ++port) ports.add(static_cast<std::uint8_t>(port));
    ports.keep_up_to(static_cast<std::uint8_t>(last));
    for (unsigned port = 0; port < 256; ++port) {
      ASSERT_EQ(ports.contains(static_cast<std::uint8_t>(port)), port <= last);
    }
  }
}

}  // namespace
}  // namespace verbatim::fabric
