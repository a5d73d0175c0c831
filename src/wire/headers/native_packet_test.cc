// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/native_packet.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

// The sample packet of the specification's appendix: LRH, BTH, RETH, 14 octets, padding, CRCs.
const Octets kLocal =
    hex("7012375c000e17d2 0a2024870087b1b3000dec2a01710a1c015d400238f27a050000000e"
        "bb884d85fd5cfba4728bc0690ed40000 9625b75a 45fa");

/// The same transport packet behind a GRH.
Octets global() {
  Octets octets = hex("7013375c001817d2");
  Octets grh(Grh::kSize);
  Grh{.payload_octets = 48, .source = test::gid("01"), .destination = test::gid("02")}.emit(
      std::span<std::byte, Grh::kSize>(grh));
  octets.insert(octets.end(), grh.begin(), grh.end());
  octets.insert(octets.end(), kLocal.begin() + 8, kLocal.end());
  return octets;
}

Octets with(Octets octets, std::size_t at, unsigned value) {
  octets[at] = static_cast<std::byte>(value);
  return octets;
}

WireError refused(const Octets& octets) {
  const auto view = NativePacketView::parse(octets);
  EXPECT_FALSE(view);
  return view ? WireError{255} : view.error();
}

TEST(NativePacket, IsFoundBehindTheLrh) {
  const auto packet = NativePacketView::parse(kLocal);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->lrh().source(), Lid{0x17d2});
  EXPECT_FALSE(packet->grh());
  EXPECT_EQ(packet->transport().data(), kLocal.data() + 8);
  EXPECT_EQ(packet->transport().size(), 48U);
  EXPECT_EQ(packet->covered_by_icrc().size(), 52U);
  EXPECT_EQ(packet->covered_by_vcrc().size(), 56U);
  EXPECT_EQ(Octets(packet->vcrc().begin(), packet->vcrc().end()), hex("45fa"));
  EXPECT_TRUE(PacketView::parse(packet->transport()));
}

TEST(NativePacket, IsFoundBehindTheGrh) {
  const Octets octets = global();
  const auto packet = NativePacketView::parse(octets);
  ASSERT_TRUE(packet);
  ASSERT_TRUE(packet->grh());
  EXPECT_EQ(packet->grh()->source(), test::gid("01"));
  EXPECT_EQ(packet->grh()->destination(), test::gid("02"));
  EXPECT_EQ(packet->transport().data(), octets.data() + 48);
  EXPECT_EQ(packet->transport().size(), 48U);
  EXPECT_EQ(packet->covered_by_icrc().size(), 92U);
}

TEST(NativePacket, RefusesRawPackets) {
  EXPECT_EQ(refused(with(kLocal, 1, 0x10)), WireError::kNotTransport);
  EXPECT_EQ(refused(with(kLocal, 1, 0x11)), WireError::kNotTransport);
  EXPECT_EQ(refused(with(global(), 14, 59)), WireError::kNotTransport) << "another next header";
}

TEST(NativePacket, RefusesLengthsThatContradictTheOctets) {
  EXPECT_EQ(refused(with(kLocal, 5, 13)), WireError::kBadLength);
  EXPECT_EQ(refused(with(kLocal, 5, 15)), WireError::kTruncated);
  EXPECT_EQ(refused(with(kLocal, 5, 0)), WireError::kBadLength);
  EXPECT_EQ(refused(with(global(), 13, 44)), WireError::kBadLength) << "PayLen";
  EXPECT_EQ(refused(with(global(), 13, 52)), WireError::kBadLength);
  EXPECT_EQ(refused(hex("7012375c000117d2 0000")), WireError::kBadLength);
}

TEST(NativePacket, RefusesOtherVersions) {
  EXPECT_EQ(refused(with(kLocal, 0, 0x71)), WireError::kBadVersion);
  EXPECT_EQ(refused(with(global(), 8, 0x40)), WireError::kBadVersion);
}

TEST(NativePacket, RefusesWhatHasNoRoomForATransportPacket) {
  for (unsigned words = 2; words < 6; ++words) {
    Octets octets(4 * words + 2);
    octets[1] = std::byte{0x02};
    octets[5] = static_cast<std::byte>(words);
    EXPECT_EQ(refused(octets), WireError::kTruncated) << words;
  }
}

TEST(NativePacket, RefusesEveryTruncation) {
  for (const Octets& whole : {kLocal, global()}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Octets cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(refused(cut), WireError::kTruncated) << size;
    }
  }
}

}  // namespace
}  // namespace verbatim::wire
