// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/packet_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

const Gid kSource = test::gid("00000000000000000000ffff0a000001");
const Gid kDestination = test::gid("00000000000000000000ffff0a000002");

PacketHeaders send_only() {
  PacketHeaders headers;
  headers.bth = {.opcode = opcode_of(Transport::kRc, Operation::kSendOnly),
                 .dest_qp = QpNumber{0x11},
                 .ack_request = true,
                 .psn = Psn(0xfffffd)};
  return headers;
}

// A packet that Linux sent: 10.0.0.1 to 10.0.0.2, source port 0xc121, identification 0x5a5f.
TEST(PacketBuilder, WritesWhatLinuxWrites) {
  const IcrcSeed seed = IcrcSeed::roce_v2(kSource, kDestination, 0xc121);
  PacketHeaders headers = send_only();
  Octets frame(16);
  PacketBuilder builder(frame, headers, 0, {.seed = &seed, .ipv4_identification = 0x5a5f});
  EXPECT_EQ(builder.finish(), 16U);
  EXPECT_EQ(frame, hex("0400ffff 00000011 80fffffd f6865342"));
}

TEST(PacketBuilder, TakesPayloadInAnyPieces) {
  const IcrcSeed seed = IcrcSeed::roce_v2(kSource, kDestination, 0xc000);
  Prng prng(19);
  for (int i = 0; i < 200; ++i) {
    const Octets payload = test::random_octets(prng, prng.below(300));
    PacketHeaders headers = send_only();
    const std::size_t needed = PacketBuilder::octets_for(headers, payload.size());
    Octets frame(needed + 8, std::byte{0xee});
    PacketBuilder builder(frame, headers, payload.size(), {.seed = &seed});
    for (std::span<const std::byte> left = payload; !left.empty();) {
      const std::size_t piece = prng.between(1, left.size());
      builder.append(left.first(piece));
      left = left.subspan(piece);
    }
    ASSERT_EQ(builder.finish(), needed);

    const auto sent = std::span<const std::byte>(frame).first(needed);
    EXPECT_EQ(verify_icrc(seed, sent), 0);
    const auto packet = PacketView::parse(sent);
    ASSERT_TRUE(packet);
    EXPECT_TRUE(std::ranges::equal(packet->payload(), payload));
    for (std::size_t pad = 0; pad < packet->bth().pad_count(); ++pad) {
      EXPECT_EQ(frame[needed - 5 - pad], std::byte{0}) << "padding is zero";
    }
    for (std::size_t at = needed; at < frame.size(); ++at) {
      EXPECT_EQ(frame[at], std::byte{0xee}) << "nothing behind the packet is touched";
    }
  }
}

TEST(PacketBuilder, SetsThePaddingThatThePayloadNeeds) {
  const IcrcSeed seed = IcrcSeed::roce_v1(kSource, kDestination);
  for (std::size_t octets = 0; octets < 9; ++octets) {
    PacketHeaders headers = send_only();
    headers.bth.pad_count = 3;  // any value is replaced
    Octets frame(PacketBuilder::octets_for(headers, octets));
    PacketBuilder builder(frame, headers, octets, {.seed = &seed});
    builder.append(Octets(octets));
    EXPECT_EQ(builder.finish() % 4, 0U);
    EXPECT_EQ((octets + headers.bth.pad_count) % 4, 0U);
    EXPECT_LT(headers.bth.pad_count, 4);
  }
}

TEST(PacketBuilder, TheIcrcDependsOnTheIdentification) {
  const IcrcSeed seed = IcrcSeed::roce_v2(kSource, kDestination, 0xc000);
  constexpr std::uint16_t kIdentifications[] = {0, 1, 0x5a5f, 0xffff};
  for (const std::uint16_t identification : kIdentifications) {
    PacketHeaders headers = send_only();
    Octets frame(16);
    PacketBuilder builder(frame, headers, 0,
                          {.seed = &seed, .ipv4_identification = identification});
    EXPECT_EQ(builder.finish(), 16U);
    EXPECT_EQ(verify_icrc(seed, frame), identification);
  }
}

TEST(PacketBuilderDeathTest, RefusesMoreOrLessPayloadThanAnnounced) {
  const IcrcSeed seed = IcrcSeed::roce_v1(kSource, kDestination);
  PacketHeaders headers = send_only();
  Octets frame(PacketBuilder::octets_for(headers, 4));
  const Octets payload(5);
  PacketBuilder builder(frame, headers, 4, {.seed = &seed});
  EXPECT_DEATH(builder.append(payload), "internal error");
  EXPECT_DEATH((void)builder.finish(), "internal error");
  EXPECT_DEATH(PacketBuilder(std::span(frame).first(16), headers, 4, {.seed = &seed}),
               "internal error");
}

}  // namespace
}  // namespace verbatim::wire
