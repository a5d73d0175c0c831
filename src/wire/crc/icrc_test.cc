// SPDX-License-Identifier: Apache-2.0
#include "wire/crc/icrc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "wire/crc/crc32.h"
#include "wire/headers/bth.h"
#include "wire/headers/grh.h"
#include "wire/headers/ipv4.h"
#include "wire/headers/ipv6.h"
#include "wire/headers/packet.h"
#include "wire/headers/test_octets.h"
#include "wire/headers/udp.h"

namespace verbatim::wire {
namespace {

using test::emitted;
using test::gid;
using test::hex;
using test::Octets;
using test::random;
using test::random_gid;
using test::random_octets;

constexpr std::uint16_t kPort = 0xc123;

Gid random_ipv4(Prng& prng) {
  Ipv4Address address;
  for (auto& octet : address.octets) octet = random<std::uint8_t>(prng);
  return gid_of(address);
}

IcrcSeed ipv4_seed() {
  return IcrcSeed::roce_v2(gid("00000000 00000000 0000ffff 0a000001"),
                           gid("00000000 00000000 0000ffff 0a000002"), kPort);
}

IcrcSeed ipv6_seed() {
  return IcrcSeed::roce_v2(gid("fd000000 00000000 00000000 00000001"),
                           gid("fd000000 00000000 00000000 00000002"), kPort);
}

Octets icrc_octets(std::uint32_t state) {
  Octets icrc(kIcrcSize);
  store_icrc(std::span<std::byte, kIcrcSize>(icrc), state);
  return icrc;
}

/// Random octets from BTH to padding, with the ICRC that belongs to them.
Octets random_transport(Prng& prng, const IcrcSeed& seed, std::size_t octets,
                        std::uint16_t identification = 0) {
  Octets transport = random_octets(prng, octets);
  const auto covered = std::span(transport).first(octets - kIcrcSize);
  const std::uint32_t state = icrc_over_headers(seed.start(octets, identification), covered);
  store_icrc(std::span(transport).last<kIcrcSize>(), state);
  return transport;
}

/// The octets that the ICRC covers, written out: every octet before the BTH, variant fields as
/// ones.
struct LongWay {
  Octets octets = Octets(8, std::byte{0xff});

  void add(const Octets& header, std::initializer_list<std::size_t> masked) {
    const std::size_t start = octets.size();
    octets.insert(octets.end(), header.begin(), header.end());
    for (const std::size_t at : masked) octets[start + at] = std::byte{0xff};
  }
  /// IPv6 and GRH: of the first octet only the traffic class is variant.
  void add_ipv6(Octets header) {
    header[0] |= std::byte{0x0f};
    add(header, {1, 2, 3, 7});
  }
  [[nodiscard]] std::uint32_t state() const { return crc32_update(kCrc32Preset, octets); }
};

// A congestion notification captured from a ConnectX-4 Lx, 10.0.17.1 to 10.0.18.1, UDP port 0.
TEST(Icrc, IsThatOfACapturedIpv4Packet) {
  const Octets packet =
      hex("8100ffff 40000118 00000000 00000000 00000000 00000000 00000000 82fd002a");
  const IcrcSeed seed = IcrcSeed::roce_v2(gid("00000000 00000000 0000ffff 0a001101"),
                                          gid("00000000 00000000 0000ffff 0a001201"), 0);
  EXPECT_EQ(icrc_octets(icrc_over_headers(seed.start(32, 0x718c), std::span(packet).first(28))),
            hex("82fd002a"));
  EXPECT_EQ(verify_icrc(seed, packet), 0x718c);
}

// A congestion notification that Linux rdma_rxe accepts, fd00::1 to fd00::2.
TEST(Icrc, IsThatOfAnIpv6Packet) {
  const Octets packet =
      hex("8100ffff 400000d2 00000000 00000000 00000000 00000000 00000000 9b31a24f");
  const IcrcSeed seed = IcrcSeed::roce_v2(gid("fd000000 00000000 00000000 00000001"),
                                          gid("fd000000 00000000 00000000 00000002"), 0xc0dc);
  EXPECT_EQ(verify_icrc(seed, packet), 0);
}

// An RDMA WRITE captured from a Mellanox adapter.
TEST(Icrc, IsThatOfACapturedRoceV1Packet) {
  const Gid both = gid("00000000 00000000 0000ffff 0f000002");
  const Octets packet = hex(
      "0a70ffff 0000010a 80a788bc 000055d4c0726000 000047b3 00000005 0000000001 000000 e3d856bb");
  EXPECT_EQ(verify_icrc(IcrcSeed::roce_v1(both, both), packet), 0);
}

// The sample packet of the specification (chapter 7), without ICRC.
Octets sample_local_packet() {
  return hex(
      "7012375c000e17d2 0a202487 0087b1b3 000dec2a 01710a1c015d4002 38f27a05 0000000e"
      "bb884d85fd5cfba4728bc0690ed4 0000");
}

// Computed by two other implementations.
Octets sample_global_packet() {
  return hex(
      "3033000200110001 60000000 0014 1b ff fe800000000000000000000000010001"
      "fe800000000000000000000000010002 0270ffff 00000043 80000003 af000000");
}

TEST(Icrc, IsThatOfTheSpecificationsSamplePacket) {
  EXPECT_EQ(icrc_octets(icrc_of_native(sample_local_packet())), hex("9625b75a"));
  EXPECT_EQ(icrc_octets(icrc_of_native(sample_global_packet())), hex("8e6ed724"));
}

/// Which bits of a packet change its ICRC, octet by octet.
Octets covered_bits(Octets packet) {
  const std::uint32_t whole = icrc_of_native(packet);
  Octets bits(packet.size());
  for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    const std::byte one = std::byte{1} << (bit % 8);
    packet[bit / 8] ^= one;
    if (icrc_of_native(packet) != whole) bits[bit / 8] |= one;
    packet[bit / 8] ^= one;
  }
  return bits;
}

TEST(Icrc, OfALocalPacketLeavesOutTheLaneAndTheBthsFifthOctet) {
  const Octets bits = covered_bits(sample_local_packet());
  Octets expected(bits.size(), std::byte{0xff});
  expected[0] = std::byte{0x0f};
  expected[8 + 4] = std::byte{0};
  EXPECT_EQ(bits, expected);
}

TEST(Icrc, OfAGlobalPacketLeavesOutTheLrhAndWhatRoutersChange) {
  const Octets bits = covered_bits(sample_global_packet());
  Octets expected(bits.size(), std::byte{0xff});
  std::fill_n(expected.begin(), 8, std::byte{0});
  expected[1] = std::byte{0x03};  // LNH: with another one it is another kind of packet
  expected[8] = std::byte{0xf0};
  for (const std::size_t at : {9U, 10U, 11U, 15U, 8U + 40U + 4U}) expected[at] = std::byte{0};
  EXPECT_EQ(bits, expected);
}

TEST(Icrc, OfANativePacketReadsNoMoreThanIsThere) {
  for (const Octets& whole : {sample_local_packet(), sample_global_packet()}) {
    for (std::size_t octets = 0; octets < whole.size(); ++octets) {
      const Octets cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(octets));
      EXPECT_NE(icrc_of_native(cut), icrc_of_native(whole)) << octets;
    }
  }
}

Octets with_icrc(Octets packet) {
  const Octets icrc = icrc_octets(icrc_of_native(packet));
  packet.insert(packet.end(), icrc.begin(), icrc.end());
  return packet;
}

TEST(IcrcSeed, OfANativePacketIsTheRegisterAfterItsHeaders) {
  for (Octets packet : {sample_local_packet(), sample_global_packet()}) {
    packet[0] = std::byte{0x30};  // any lane
    const auto lrh = LrhView::parse(packet);
    ASSERT_TRUE(lrh);
    // The length is part of what the ICRC covers, and the sample's is not that of its octets.
    store_be<std::uint16_t, 4>(std::span<std::byte, 8>(packet.data(), 8),
                               static_cast<std::uint16_t>((packet.size() + 4) / 4));
    const bool is_global = lrh->next_header() == LinkNextHeader::kGrh;
    const LocalRoute route{
        .source = lrh->source(), .destination = lrh->destination(), .level = lrh->level()};
    const Gid source = is_global ? gid("fe800000 00000000 00000000 00010001") : Gid{};
    const Gid destination = is_global ? gid("fe800000 00000000 00000000 00010002") : Gid{};
    const IcrcSeed seed = IcrcSeed::of(route, source, destination, 0);
    const Octets whole = with_icrc(packet);
    const auto transport = std::span<const std::byte>(whole).subspan(is_global ? 48 : 8);
    EXPECT_EQ(verify_icrc(seed, transport), 0) << is_global;
  }
}

TEST(IcrcSeed, OverIpv4IsTheRegisterAfterEveryHeader) {
  Prng prng(1);
  for (int round = 0; round < 500; ++round) {
    const Gid source = random_ipv4(prng);
    const Gid destination = random_ipv4(prng);
    const auto port = random<std::uint16_t>(prng);
    const auto identification = random<std::uint16_t>(prng);
    const auto octets = static_cast<std::uint16_t>(prng.between(16, kIcrcMaxTransportOctets));
    LongWay way;
    way.add(emitted(Ipv4{.traffic_class = random<std::uint8_t>(prng),
                         .total_octets = static_cast<std::uint16_t>(octets + 28),
                         .identification = identification,
                         .source = ipv4_of(source),
                         .destination = ipv4_of(destination)}),
            {1, 8, 10, 11});
    way.add(emitted(Udp{.source_port = port,
                        .octets = static_cast<std::uint16_t>(octets + 8),
                        .checksum = random<std::uint16_t>(prng)}),
            {6, 7});
    const IcrcSeed seed = IcrcSeed::roce_v2(source, destination, port);
    EXPECT_TRUE(seed.is_ipv4());
    ASSERT_EQ(seed.start(octets, identification), way.state());
  }
}

TEST(IcrcSeed, OverIpv6IsTheRegisterAfterEveryHeader) {
  Prng prng(2);
  for (int round = 0; round < 500; ++round) {
    const Gid source = random_gid(prng);
    const Gid destination = random_gid(prng);
    const auto port = random<std::uint16_t>(prng);
    const auto octets = static_cast<std::uint16_t>(prng.between(16, kIcrcMaxTransportOctets));
    const auto udp_octets = static_cast<std::uint16_t>(octets + 8);
    LongWay way;
    way.add_ipv6(emitted(Ipv6{.traffic_class = random<std::uint8_t>(prng),
                              .flow_label = random<std::uint32_t>(prng),
                              .payload_octets = udp_octets,
                              .source = source,
                              .destination = destination}));
    way.add(emitted(Udp{.source_port = port, .octets = udp_octets}), {6, 7});
    const IcrcSeed seed = IcrcSeed::roce_v2(source, destination, port);
    EXPECT_FALSE(seed.is_ipv4());
    ASSERT_EQ(seed.start(octets), way.state());
  }
}

TEST(IcrcSeed, OfRoceV1IsTheRegisterAfterTheGrh) {
  Prng prng(3);
  for (int round = 0; round < 500; ++round) {
    const Gid source = round % 2 == 0 ? random_gid(prng) : random_ipv4(prng);
    const Gid destination = round % 2 == 0 ? random_gid(prng) : random_ipv4(prng);
    const auto octets = static_cast<std::uint16_t>(prng.between(16, kIcrcMaxTransportOctets));
    LongWay way;
    way.add_ipv6(emitted(Grh{.traffic_class = random<std::uint8_t>(prng),
                             .flow_label = random<std::uint32_t>(prng),
                             .payload_octets = octets,
                             .hop_limit = random<std::uint8_t>(prng),
                             .source = source,
                             .destination = destination}));
    ASSERT_EQ(IcrcSeed::roce_v1(source, destination).start(octets), way.state());
  }
}

TEST(IcrcSeed, TakesIpv4OnlyForAPairOfIpv4Addresses) {
  Prng prng(4);
  const Gid ipv4 = random_ipv4(prng);
  const Gid ipv6 = gid("fd000000 00000000 00000000 00000001");
  EXPECT_TRUE(IcrcSeed::roce_v2(ipv4, ipv4, kPort).is_ipv4());
  EXPECT_FALSE(IcrcSeed::roce_v2(ipv4, ipv6, kPort).is_ipv4());
  EXPECT_FALSE(IcrcSeed::roce_v2(ipv6, ipv4, kPort).is_ipv4());
  EXPECT_FALSE(IcrcSeed::roce_v1(ipv4, ipv4).is_ipv4());
}

TEST(VerifyIcrc, AcceptsWhatWasStored) {
  Prng prng(5);
  for (const IcrcSeed& seed : {ipv4_seed(), ipv6_seed()}) {
    for (std::size_t octets = 16; octets <= 600; octets += 4) {
      EXPECT_EQ(verify_icrc(seed, random_transport(prng, seed, octets)), 0);
    }
  }
}

TEST(VerifyIcrc, IgnoresTheBthsFifthOctetAlone) {
  Prng prng(6);
  const IcrcSeed seed = ipv6_seed();
  Octets transport = random_transport(prng, seed, 1040);
  for (std::size_t bit = 0; bit < 8 * transport.size(); ++bit) {
    transport[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_EQ(verify_icrc(seed, transport).has_value(), bit / 8 == 4) << bit;
    transport[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(VerifyIcrc, RefusesWhatCannotBeAPacket) {
  Prng prng(7);
  const IcrcSeed seed = ipv4_seed();
  for (std::size_t octets = 0; octets < Bth::kSize + kIcrcSize; ++octets) {
    EXPECT_EQ(verify_icrc(seed, Octets(octets)), std::nullopt);
  }
  EXPECT_EQ(verify_icrc(seed, Octets(kIcrcMaxTransportOctets + 1)), std::nullopt);
  EXPECT_EQ(verify_icrc(seed, random_transport(prng, seed, kIcrcMaxTransportOctets, 77)), 77);
}

TEST(VerifyIcrc, FindsEveryIdentification) {
  Prng prng(8);
  const IcrcSeed seed = ipv4_seed();
  for (const std::size_t octets : {16U, 20U, 44U, 272U, 1040U, 4144U}) {
    Octets transport = random_transport(prng, seed, octets);
    const auto covered = std::span(transport).first(octets - kIcrcSize);
    for (std::uint32_t id = 0; id <= 0xffff; id += octets == 16 ? 1U : 97U) {
      const auto identification = static_cast<std::uint16_t>(id);
      store_icrc(std::span(transport).last<kIcrcSize>(),
                 icrc_over_headers(seed.start(octets, identification), covered));
      ASSERT_EQ(verify_icrc(seed, transport), identification);
    }
  }
}

/// The register before the BTH for a peer without "don't fragment", computed from all octets.
std::uint32_t start_that_may_fragment(std::uint16_t octets, std::uint16_t identification) {
  LongWay way;
  way.add(emitted(Ipv4{.total_octets = static_cast<std::uint16_t>(octets + 28),
                       .identification = identification,
                       .dont_fragment = false,
                       .source = {{10, 0, 0, 1}},
                       .destination = {{10, 0, 0, 2}}}),
          {1, 8, 10, 11});
  way.add(emitted(Udp{.source_port = kPort, .octets = static_cast<std::uint16_t>(octets + 8)}),
          {6, 7});
  return way.state();
}

TEST(VerifyIcrc, NeedsNoSolutionForTheIdentificationThatIsExpected) {
  Prng prng(31);
  const IcrcSeed seed = ipv4_seed();
  const Octets transport = random_transport(prng, seed, 64, 0x1234);
  EXPECT_EQ(verify_icrc(seed, transport, 0x1234), 0x1234);
  EXPECT_EQ(verify_icrc(seed, transport, 0x1235), 0x1234) << "another is found as ever";
}

TEST(ChangeIdentification, MakesThePacketThatWouldHaveBeenBuilt) {
  const IcrcSeed seed = ipv4_seed();
  for (const std::size_t octets : {Bth::kSize + kIcrcSize, std::size_t{64}, std::size_t{4096}}) {
    Prng prng(octets);
    Octets transport = random_transport(prng, seed, octets, 7);
    prng = Prng(octets);
    const Octets wanted = random_transport(prng, seed, octets, 0xfe03);
    change_identification(transport, 7, 0xfe03);
    EXPECT_EQ(transport, wanted) << octets;
  }
}

TEST(VerifyIcrc, AcceptsAPeerThatLetsItsPacketsBeFragmented) {
  Prng prng(9);
  for (const std::uint16_t identification :
       std::array<std::uint16_t, 5>{0, 1, 0x4000, 0xbeef, 0xffff}) {
    Octets transport = random_octets(prng, 300);
    const auto covered = std::span(transport).first(300 - kIcrcSize);
    store_icrc(std::span(transport).last<kIcrcSize>(),
               icrc_over_headers(start_that_may_fragment(300, identification), covered));
    EXPECT_EQ(verify_icrc(ipv4_seed(), transport), identification);
  }
}

// No more than 2^17 of the 2^32 ICRCs belong to some identification: one in 2^15 passes by chance,
// 31 of a million. Sixty of them have a chance below one in a million.
TEST(VerifyIcrc, LetsOneRandomCorruptionInThirtyThousandPassOverIpv4) {
  Prng prng(10);
  const IcrcSeed seed = ipv4_seed();
  Octets transport = random_transport(prng, seed, 64, 0x1234);
  int passed = 0;
  for (int round = 0; round < 1'000'000; ++round) {
    const std::uint64_t noise = prng.next();
    std::memcpy(transport.data() + 20, &noise, sizeof noise);
    if (verify_icrc(seed, transport)) ++passed;
  }
  EXPECT_LT(passed, 60);
}

TEST(VerifyIcrc, DetectsEverySingleBitButTwoOverIpv4) {
  Prng prng(11);
  const IcrcSeed seed = ipv4_seed();
  Octets transport = random_transport(prng, seed, kMaxTransportOctets, 0x1234);
  std::vector<std::size_t> passed;
  for (std::size_t bit = 0; bit < 8 * transport.size(); ++bit) {
    if (bit / 8 == 4) continue;
    transport[bit / 8] ^= std::byte{1} << (bit % 8);
    if (verify_icrc(seed, transport)) passed.push_back(bit);
    transport[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_EQ(passed, (std::vector<std::size_t>{8 * 173 + 3, 8 * 1834 + 6}));
}

}  // namespace
}  // namespace verbatim::wire
