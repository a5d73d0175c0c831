// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/wire_error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace verbatim::wire {
namespace {

TEST(WireError, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kWireErrorCount; ++i) {
    names.insert(name_of(WireError{static_cast<std::uint8_t>(i)}));
  }
  EXPECT_EQ(names.size(), kWireErrorCount);
  EXPECT_EQ(names.count("?"), 0U);
  EXPECT_STREQ(name_of(WireError{kWireErrorCount}), "?") << "the count covers the enumerators";
}

}  // namespace
}  // namespace verbatim::wire
