// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_arrival_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/prng.h"

namespace verbatim::host {
namespace {

std::vector<std::byte> packet_of(std::uint64_t octets, std::uint32_t number) {
  std::vector<std::byte> packet(octets);
  for (std::size_t i = 0; i < octets; ++i) packet[i] = static_cast<std::byte>(number * 31 + i);
  return packet;
}

bool is_packet(std::span<const std::byte> octets, std::uint32_t number) {
  return std::ranges::equal(octets, packet_of(octets.size(), number));
}

struct Ring {
  std::unique_ptr<FabricDataArea> area = std::make_unique<FabricDataArea>();
  FabricArrivalWriter writer{area.get()};
  FabricArrivalReader reader{area.get()};
};

TEST(FabricArrivalRing, PacketsOfAnyLengthComeOutInOrderRoundAndRound) {
  Ring ring;
  Prng prng(1);
  std::deque<std::size_t> inside;
  std::uint32_t sent = 0;
  std::uint32_t got = 0;
  while (got < 4'000) {  // some eight times round the ring
    const std::uint64_t octets = 1 + prng.below(FabricDataArea::kBufferOctets);
    if (ring.writer.put(packet_of(octets, sent))) {
      inside.push_back(octets);
      ++sent;
      if (prng.below(8) != 0) continue;
    }
    for (auto left = prng.below(inside.size() + 1); left > 0; --left) {
      const auto packet = ring.reader.next();
      ASSERT_EQ(packet.size(), inside.front()) << got;
      ASSERT_TRUE(is_packet(packet, got)) << got;
      inside.pop_front();
      ++got;
    }
    ring.reader.release();
  }
  EXPECT_FALSE(ring.reader.is_broken());
}

TEST(FabricArrivalRing, WhatIsNotReleasedIsNotWrittenOver) {
  Ring ring;
  const auto packet = packet_of(FabricDataArea::kBufferOctets, 7);
  std::uint32_t count = 0;
  while (ring.writer.put(packet)) ++count;
  EXPECT_EQ(count, FabricDataArea::kRingOctets / FabricArrivalEntry::octets_with(4352));
  std::vector<std::span<const std::byte>> seen;
  for (auto next = ring.reader.next(); !next.empty(); next = ring.reader.next()) {
    seen.push_back(next);
  }
  EXPECT_EQ(seen.size(), count);
  EXPECT_FALSE(ring.writer.put(packet_of(4352, 8))) << "read, but not released";
  for (const auto& each : seen) ASSERT_TRUE(is_packet(each, 7));
  const std::uint32_t before = ring.writer.released();
  ring.reader.release();
  EXPECT_NE(ring.writer.released(), before);
  EXPECT_TRUE(ring.writer.put(packet));
}

TEST(FabricArrivalRing, NonsenseOfTheProcessLooksLikeAFullRing) {
  Ring ring;
  Prng prng(2);
  const auto packet = packet_of(300, 1);
  for (int i = 0; i < 100'000; ++i) {
    ring.area->released.store(static_cast<std::uint32_t>(prng.next()));
    (void)ring.writer.put(packet);  // into the ring, or not at all
  }
  Ring fresh;
  std::uint32_t count = 0;
  while (fresh.writer.put(packet)) ++count;
  fresh.area->released.store(count * FabricArrivalEntry::octets_with(300) + 64);
  EXPECT_FALSE(fresh.writer.put(packet)) << "more is released than was written";
}

TEST(FabricArrivalRing, NonsenseOfTheFabricEndsTheReader) {
  Prng prng(3);
  Ring nonsense;
  for (int i = 0; i < 10'000; ++i) {
    Ring& ring = nonsense;
    ring.reader = FabricArrivalReader(ring.area.get());
    for (std::size_t at = 0; at < 4096; at += 64) {
      const auto head = static_cast<std::uint32_t>(prng.next() >> prng.below(60));
      std::memcpy(&ring.area->arrivals[at], &head, sizeof head);
    }
    ring.area->arrived.store(static_cast<std::uint32_t>(prng.next() >> prng.below(60)));
    const std::byte* const begin = ring.area->arrivals.data();
    for (int reads = 0; reads < 100; ++reads) {
      const auto packet = ring.reader.next();
      if (packet.empty()) break;
      ASSERT_GE(packet.data(), begin);
      ASSERT_LE(packet.data() + packet.size(), begin + FabricDataArea::kRingOctets);
    }
  }
}

TEST(FabricArrivalRing, MoreThanTheRingHoldsIsNonsense) {
  Ring ring;
  const std::uint32_t octets = 100;
  std::memcpy(ring.area->arrivals.data(), &octets, sizeof octets);
  ring.area->arrived.store(FabricDataArea::kRingOctets + 64);
  EXPECT_TRUE(ring.reader.next().empty());
  EXPECT_TRUE(ring.reader.is_broken());
}

}  // namespace
}  // namespace verbatim::host
