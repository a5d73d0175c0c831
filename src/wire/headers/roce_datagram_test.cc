// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/roce_datagram.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

// Two packets that Linux sent: an empty RC SEND Only over IPv4, and one over IPv6.
const Octets kIpv4 =
    hex("4568002c5a5f40004011cbf7 0a000001 0a000002 c12112b700180000"
        "0400ffff0000001180fffffdf6865342");
const Octets kIpv6 =
    hex("60300000 0018 11 40 fe80000000000000505400fffe000001"
        "fe80000000000000505400fffe000002 e34112b700180000"
        "0400ffff0000001980fffffd01020304");

Octets with(Octets octets, std::size_t at, unsigned value) {
  octets[at] = static_cast<std::byte>(value);
  return octets;
}

/// Any IPv4 header change, with the checksum made right again.
Octets rechecked(Octets octets) {
  octets[10] = octets[11] = std::byte{0};
  const auto sum = InternetChecksum().add(std::span(octets).first(20)).finish();
  store_be_at<std::uint16_t>(octets.data() + 10, sum);
  return octets;
}

WireError refused(const Octets& octets) {
  const auto datagram = RoceDatagram::parse(octets);
  EXPECT_FALSE(datagram);
  return datagram ? WireError{255} : datagram.error();
}

TEST(RoceDatagram, IsFoundInIpv4) {
  const auto found = RoceDatagram::parse(kIpv4);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->envelope.source, gid_of({{10, 0, 0, 1}}));
  EXPECT_EQ(found->envelope.destination, gid_of({{10, 0, 0, 2}}));
  EXPECT_EQ(found->envelope.source_port, 0xc121);
  EXPECT_EQ(found->envelope.ipv4_identification, 0x5a5f);
  EXPECT_EQ(found->envelope.traffic_class, 0x68);
  EXPECT_EQ(found->envelope.hop_limit, 64);
  EXPECT_TRUE(found->envelope.is_ipv4());
  EXPECT_TRUE(found->dont_fragment);
  EXPECT_EQ(found->transport.data(), kIpv4.data() + 28);
  EXPECT_EQ(found->transport.size(), 16U);
}

TEST(RoceDatagram, IsFoundInIpv6) {
  const auto found = RoceDatagram::parse(kIpv6);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->envelope.source, test::gid("fe80000000000000505400fffe000001"));
  EXPECT_EQ(found->envelope.destination, test::gid("fe80000000000000505400fffe000002"));
  EXPECT_EQ(found->envelope.source_port, 0xe341);
  EXPECT_EQ(found->envelope.traffic_class, 0x03);
  EXPECT_EQ(found->envelope.flow_label, 0U);
  EXPECT_FALSE(found->envelope.is_ipv4());
  EXPECT_EQ(found->transport.data(), kIpv6.data() + 48);
  EXPECT_EQ(found->transport.size(), 16U);
}

TEST(RoceDatagram, EndsWhereUdpSaysAndNotWhereTheFrameDoes) {
  for (Octets octets : {kIpv4, kIpv6}) {
    octets.resize(octets.size() + 14, std::byte{0xee});
    const auto found = RoceDatagram::parse(octets);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->transport.size(), 16U);
  }
}

TEST(RoceDatagram, RefusesOtherProtocolsAndPorts) {
  EXPECT_EQ(refused(with(kIpv4, 23, 0xb8)), WireError::kNotRoce) << "another port";
  EXPECT_EQ(refused(with(kIpv6, 43, 0xb8)), WireError::kNotRoce);
  EXPECT_EQ(refused(rechecked(with(kIpv4, 9, 6))), WireError::kNotRoce) << "TCP";
  EXPECT_EQ(refused(with(kIpv6, 6, 44)), WireError::kNotRoce) << "a fragment header";
  EXPECT_EQ(refused(rechecked(with(kIpv4, 6, 0x20))), WireError::kNotRoce) << "a fragment";
  EXPECT_EQ(refused(rechecked(with(kIpv4, 7, 0x01))), WireError::kNotRoce) << "a later fragment";
  EXPECT_EQ(refused(with(kIpv4, 0, 0x46)), WireError::kNotRoce) << "options";
}

TEST(RoceDatagram, RefusesMappedAddressesInAnIpv6Header) {
  Octets octets = kIpv6;
  const Gid mapped = gid_of({{10, 0, 0, 1}});
  std::memcpy(octets.data() + 8, mapped.octets.data(), 16);
  EXPECT_TRUE(RoceDatagram::parse(octets)) << "one alone names no IPv4 flow";
  std::memcpy(octets.data() + 24, mapped.octets.data(), 16);
  EXPECT_EQ(refused(octets), WireError::kNotRoce);
}

TEST(RoceDatagram, RefusesOtherIpVersions) {
  for (unsigned version = 0; version < 16; ++version) {
    if (version == 4 || version == 6) continue;
    EXPECT_EQ(refused(with(kIpv4, 0, version << 4 | 5)), WireError::kBadVersion);
  }
}

TEST(RoceDatagram, RefusesAWrongHeaderChecksum) {
  EXPECT_EQ(refused(with(kIpv4, 10, 0)), WireError::kBadChecksum);
}

TEST(RoceDatagram, RefusesLengthsThatContradictEachOther) {
  EXPECT_EQ(refused(rechecked(with(kIpv4, 3, 19))), WireError::kBadLength);
  EXPECT_EQ(refused(rechecked(with(kIpv4, 3, 27))), WireError::kTruncated) << "no UDP header";
  EXPECT_EQ(refused(rechecked(with(kIpv4, 3, 0x2b))), WireError::kBadLength);
  EXPECT_EQ(refused(rechecked(with(kIpv4, 3, 0x2d))), WireError::kTruncated);
  EXPECT_EQ(refused(with(kIpv4, 25, 0x17)), WireError::kBadLength);
  EXPECT_EQ(refused(with(kIpv4, 25, 0x19)), WireError::kBadLength);
  EXPECT_EQ(refused(with(kIpv4, 25, 0x00)), WireError::kBadLength);
  EXPECT_EQ(refused(with(kIpv6, 5, 0x17)), WireError::kBadLength);
  EXPECT_EQ(refused(with(kIpv6, 5, 0x19)), WireError::kTruncated);
  EXPECT_EQ(refused(with(kIpv6, 45, 0x17)), WireError::kBadLength);
}

TEST(RoceDatagram, RefusesEveryTruncation) {
  for (const Octets& whole : {kIpv4, kIpv6}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const Octets cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_EQ(refused(cut), WireError::kTruncated) << size;
    }
  }
}

TEST(RoceEnvelope, IsWrittenAsLinuxWritesIt) {
  for (const Octets& whole : {kIpv4, kIpv6}) {
    const auto found = RoceDatagram::parse(whole);
    ASSERT_TRUE(found);
    Octets headers(RoceEnvelope::kMaxOctets, std::byte{0xff});
    const std::size_t written = found->envelope.emit(headers, found->transport.size());
    EXPECT_EQ(written, found->envelope.octet_count());
    headers.resize(written);
    EXPECT_EQ(headers, Octets(whole.begin(), whole.end() - 16));
  }
}

TEST(RoceEnvelope, SurvivesTheRoundTrip) {
  Prng prng(17);
  for (int i = 0; i < 1000; ++i) {
    const bool ipv4 = prng.one_in(2);
    const auto address = [&] {
      const Gid random = test::random_gid(prng);
      return ipv4 ? gid_of({{random.octets[0], random.octets[1], 0, 9}}) : random;
    };
    const RoceEnvelope sent{
        .source = address(),
        .destination = address(),
        .source_port = test::random<std::uint16_t>(prng),
        .ipv4_identification = ipv4 ? test::random<std::uint16_t>(prng) : std::uint16_t{0},
        .traffic_class = test::random<std::uint8_t>(prng),
        .hop_limit = test::random<std::uint8_t>(prng),
        .flow_label = ipv4 ? 0 : test::random<std::uint32_t>(prng) & Ipv6::kFlowLabelMask};
    const std::size_t transport = prng.below(4200);
    Octets octets(sent.octet_count() + transport);
    EXPECT_EQ(sent.emit(octets, transport), sent.octet_count());
    const auto got = RoceDatagram::parse(octets);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->envelope, sent);
    EXPECT_EQ(got->transport.size(), transport);
  }
}

}  // namespace
}  // namespace verbatim::wire
