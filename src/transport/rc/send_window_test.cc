// SPDX-License-Identifier: Apache-2.0
#include "transport/rc/send_window.h"

#include <gtest/gtest.h>

namespace verbatim::transport {
namespace {

using wire::Psn;

SendWindow window_of(std::uint32_t packets) {
  SendWindow window;
  window.start(packets);
  return window;
}

TEST(SendWindow, BeginsWideOpenAndAsksFourTimesPerWindow) {
  const SendWindow window = window_of(64);
  EXPECT_EQ(window.packets(), 64U);
  EXPECT_EQ(window.ack_period(), 16U);
  EXPECT_EQ(window_of(1).ack_period(), 1U);
}

TEST(SendWindow, HalvesOncePerLossOfWhatWasInFlight) {
  SendWindow window = window_of(64);
  window.handle_loss(Psn(100));
  EXPECT_EQ(window.packets(), 32U);
  window.handle_loss(Psn(110));
  EXPECT_EQ(window.packets(), 32U) << "the same loss, seen again";
  window.handle_progress(Psn(99), 5);
  window.handle_loss(Psn(110));
  EXPECT_EQ(window.packets(), 32U);
  window.handle_progress(Psn(100), 1);
  window.handle_loss(Psn(110));
  EXPECT_EQ(window.packets(), 16U) << "all of the first is there; this is another";
}

TEST(SendWindow, StaysOpenForAFewPackets) {
  SendWindow window = window_of(64);
  for (std::uint32_t psn = 1; psn < 20; ++psn) {
    window.handle_loss(Psn(psn));
    window.handle_progress(Psn(psn), 1);
  }
  EXPECT_EQ(window.packets(), 8U);
  SendWindow small = window_of(3);
  small.handle_loss(Psn(1));
  EXPECT_EQ(small.packets(), 3U);
}

TEST(SendWindow, GrowsWithEveryWindowThatArrivesUntilItIsOpenAgain) {
  SendWindow window = window_of(64);
  window.handle_loss(Psn(10));
  window.handle_progress(Psn(10), 10);
  EXPECT_EQ(window.packets(), 32U);
  window.handle_progress(Psn(32), 22);
  EXPECT_EQ(window.packets(), 36U);
  for (std::uint32_t i = 1; i < 20; ++i) window.handle_progress(Psn(32 + 64 * i), 64);
  EXPECT_EQ(window.packets(), 64U);
}

TEST(SendWindow, ANewLimitClosesItAtOnce) {
  SendWindow window = window_of(64);
  window.limit(5);
  EXPECT_EQ(window.packets(), 5U);
}

}  // namespace
}  // namespace verbatim::transport
