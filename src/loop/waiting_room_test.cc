// SPDX-License-Identifier: Apache-2.0
#include "loop/waiting_room.h"

#include <gtest/gtest.h>

#include <array>

namespace verbatim::loop {
namespace {

constexpr wire::QpNumber kReceiver{0x1234};

std::array<std::byte, 3> packet_of(std::size_t number) {
  return {std::byte(number & 0xff), std::byte(number >> 8), std::byte(0x5a)};
}

TEST(WaitingRoom, LetsPacketsGoInTheOrderInWhichTheyCame) {
  WaitingRoom room;
  for (std::size_t i = 0; i < 6; ++i) {
    const auto packet = packet_of(i);  // gone when let_go() asks
    ASSERT_TRUE(room.admit(kReceiver, {.octets = packet}));
  }
  std::vector<int> gone;
  room.let_go([&](wire::QpNumber receiver, const link::Incoming& packet) {
    EXPECT_EQ(receiver, kReceiver);
    const int number = std::to_integer<int>(packet.octets[0]);
    if (number % 2 != 0) return false;
    gone.push_back(number);
    return true;
  });
  EXPECT_EQ(gone, (std::vector<int>{0, 2, 4}));
  room.let_go([&](wire::QpNumber receiver, const link::Incoming& packet) {
    EXPECT_EQ(receiver, kReceiver);
    gone.push_back(std::to_integer<int>(packet.octets[0]));
    return true;
  });
  EXPECT_EQ(gone, (std::vector<int>{0, 2, 4, 1, 3, 5}));
  EXPECT_TRUE(room.is_empty());
}

TEST(WaitingRoom, RefusesPacketsWhenItIsFullAndHasRoomAgainLater) {
  WaitingRoom room;
  for (std::size_t i = 0; i < WaitingRoom::kPlaces; ++i) {
    ASSERT_TRUE(room.admit(kReceiver, {.octets = packet_of(i)}));
  }
  EXPECT_FALSE(room.admit(kReceiver, {.octets = packet_of(7)}));
  bool is_first = true;
  room.let_go(
      [&](wire::QpNumber, const link::Incoming&) { return std::exchange(is_first, false); });
  EXPECT_TRUE(room.admit(kReceiver, {.octets = packet_of(7)}));
  EXPECT_FALSE(room.admit(kReceiver, {.octets = packet_of(8)}));
}

TEST(WaitingRoom, HasNoPlaceForWhatNoPacketIs) {
  WaitingRoom room;
  const std::vector<std::byte> giant(link::kFrameOctets + 1);
  EXPECT_FALSE(room.admit(kReceiver, {.octets = giant}));
  EXPECT_TRUE(room.is_empty());
}

}  // namespace
}  // namespace verbatim::loop
