// SPDX-License-Identifier: Apache-2.0
#include "fabric/ring_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>

#include "base/prng.h"

namespace verbatim::fabric {
namespace {

TEST(RingQueue, WhatWasPushedFirstIsPoppedFirstHoweverMuchThereIs) {
  Prng prng(3);
  RingQueue<std::uint32_t> queue;
  std::deque<std::uint32_t> expected;
  std::uint32_t next = 0;
  for (int step = 0; step < 5000; ++step) {
    if (step % 1000 < 700 ? prng.one_in(3) : !prng.one_in(3)) {
      if (expected.empty()) continue;
      ASSERT_EQ(queue.front(), expected.front());
      ASSERT_EQ(queue.pop(), expected.front());
      expected.pop_front();
    } else {
      queue.push(next);
      expected.push_back(next++);
    }
    ASSERT_EQ(queue.size(), expected.size());
    ASSERT_EQ(queue.empty(), expected.empty());
  }
}

}  // namespace
}  // namespace verbatim::fabric
