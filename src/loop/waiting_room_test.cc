// SPDX-License-Identifier: Apache-2.0
#include "loop/waiting_room.h"

#include <gtest/gtest.h>

#include <array>

namespace verbatim::loop {
namespace {

std::array<std::byte, 3> packet_of(std::size_t number) {
  return {std::byte(number & 0xff), std::byte(number >> 8), std::byte(0x5a)};
}

TEST(WaitingRoom, LetsThoseGoWhoMayInTheOrderInWhichTheyCame) {
  WaitingRoom room;
  for (std::size_t i = 0; i < 6; ++i) {
    const auto packet = packet_of(i);  // gone when the guest is asked
    ASSERT_TRUE(room.admit({.octets = packet}));
  }
  std::vector<int> gone;
  room.let_go([&](const link::Incoming& guest) {
    const int number = std::to_integer<int>(guest.octets[0]);
    if (number % 2 != 0) return false;
    gone.push_back(number);
    return true;
  });
  EXPECT_EQ(gone, (std::vector<int>{0, 2, 4}));
  room.let_go([&](const link::Incoming& guest) {
    gone.push_back(std::to_integer<int>(guest.octets[0]));
    return true;
  });
  EXPECT_EQ(gone, (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_TRUE(room.is_empty());
}

TEST(WaitingRoom, TurnsAwayWhoeverComesWhenItIsFullAndHasRoomAgainLater) {
  WaitingRoom room;
  for (std::size_t i = 0; i < WaitingRoom::kPlaces; ++i) {
    ASSERT_TRUE(room.admit({.octets = packet_of(i)}));
  }
  EXPECT_FALSE(room.admit({.octets = packet_of(7)}));
  bool is_first = true;
  room.let_go([&](const link::Incoming&) { return std::exchange(is_first, false); });
  EXPECT_TRUE(room.admit({.octets = packet_of(7)}));
  EXPECT_FALSE(room.admit({.octets = packet_of(8)}));
}

TEST(WaitingRoom, HasNoPlaceForWhatNoPacketIs) {
  WaitingRoom room;
  const std::vector<std::byte> giant(link::kFrameOctets + 1);
  EXPECT_FALSE(room.admit({.octets = giant}));
  EXPECT_TRUE(room.is_empty());
}

}  // namespace
}  // namespace verbatim::loop
