// SPDX-License-Identifier: Apache-2.0
// Tests of the verbs as a program sees them: each runs in a network of its own.
#include <gtest/gtest.h>

#include <cstdio>

#include "private_network.h"

int main(int argc, char** argv) {
  if (!verbatim::testing::enter_private_network()) {
    std::puts("skipped: no network namespace to be had");
    return 77;  // ctest counts it as skipped
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
