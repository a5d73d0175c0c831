// SPDX-License-Identifier: Apache-2.0
#include "wire/print/print.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

std::string line_of(const Octets& transport) {
  std::array<char, kPrintedPacketMax> buffer;
  return std::string(print_transport(transport, buffer));
}

std::string text_of(Syndrome syndrome) {
  std::array<char, 100> buffer;
  TextLine line(buffer);
  append(line, syndrome);
  return std::string(line.view());
}

std::string text_of(const char* gid) {
  std::array<char, 100> buffer;
  TextLine line(buffer);
  append(line, test::gid(gid));
  return std::string(line.view());
}

TEST(Print, ShowsWhatMattersOfEachKindOfPacket) {
  EXPECT_EQ(line_of(hex("0600ffff 00000011 80000100 00007f0000001000 00001234 00001000"
                        "0000000000000000 ffffffff")),
            "RC RDMA WRITE First  qp 0x000011 psn 0x000100 A-  va 0x7f0000001000 rkey 0x1234 "
            "len 4096  payload 8");
  EXPECT_EQ(line_of(hex("0490ffff 00000011 80fffffd 01020300 ffffffff")),
            "RC SEND Only  qp 0x000011 psn 0xfffffd AS  payload 3");
  EXPECT_EQ(line_of(hex("0500ffff 00000011 00000001 deadbeef ffffffff")),
            "RC SEND Only with Immediate  qp 0x000011 psn 0x000001 --  imm 0xdeadbeef  payload 0");
  EXPECT_EQ(line_of(hex("1700ffff 00000011 00000001 00c0ffee ffffffff")),
            "RC SEND Only with Invalidate  qp 0x000011 psn 0x000001 --  invalidate rkey 0xc0ffee  "
            "payload 0");
  EXPECT_EQ(line_of(hex("6400ffff 00000001 00000000 80010000 00000012 ffffffff")),
            "UD SEND Only  qp 0x000001 psn 0x000000 --  from qp 0x000012 qkey 0x80010000  "
            "payload 0");
  EXPECT_EQ(line_of(hex("0c00ffff 00000011 80000002 0000000000001000 00001234 00000000 ffffffff")),
            "RC RDMA READ Request  qp 0x000011 psn 0x000002 A-  va 0x1000 rkey 0x1234 len 0");
  EXPECT_EQ(line_of(hex("1300ffff 00000011 80000003 0000000000001000 00001234 0000000000000007"
                        "0000000000000008 ffffffff")),
            "RC CmpSwap  qp 0x000011 psn 0x000003 A-  va 0x1000 rkey 0x1234 compare 0x8 swap 0x7");
  EXPECT_EQ(line_of(hex("1400ffff 00000011 80000003 0000000000001000 00001234 0000000000000007"
                        "0000000000000008 ffffffff")),
            "RC FetchAdd  qp 0x000011 psn 0x000003 A-  va 0x1000 rkey 0x1234 add 0x7");
  EXPECT_EQ(line_of(hex("1200ffff 00000011 00000003 1f000004 00000000000000ff ffffffff")),
            "RC ATOMIC Acknowledge  qp 0x000011 psn 0x000003 --  ACK msn 4  original 0xff");
  EXPECT_EQ(line_of(hex("1c00ffff 00000011 80000003 00000013 0000000000001000 00001234 00000010"
                        "ffffffff")),
            "RC FLUSH  qp 0x000011 psn 0x000003 A-  flush region visible persistent  va 0x1000 "
            "rkey 0x1234 len 16");
  EXPECT_EQ(line_of(hex("1d00ffff 00000011 80000003 0000000000001000 00001234 00000008"
                        "0102030405060708 ffffffff")),
            "RC ATOMIC WRITE  qp 0x000011 psn 0x000003 A-  va 0x1000 rkey 0x1234 len 8  payload 8 "
            "value 0x102030405060708");
  EXPECT_EQ(line_of(hex("a400ffff 00000011 80000003 00000021 ffffffff")),
            "XRC SEND Only  qp 0x000011 psn 0x000003 A-  srq 0x000021  payload 0");
  EXPECT_EQ(line_of(hex("81008001 40000118 00000000 00000000000000000000000000000000 ffffffff")),
            "CNP  qp 0x000118 psn 0x000000 -- becn pkey 0x8001");
  EXPECT_EQ(line_of(hex("0440ffff 80000011 00000000 ffffffff")),
            "RC SEND Only  qp 0x000011 psn 0x000000 -- migrated fecn  payload 0");
}

TEST(Print, SaysWhyOctetsAreNoPacket) {
  EXPECT_EQ(line_of(hex("0400ffff")), "malformed (truncated), 4 octets");
  EXPECT_EQ(line_of(hex("ff00ffff 00000011 00000000 ffffffff")),
            "malformed (unknown opcode), 16 octets");
}

TEST(Print, PutsSyndromesIntoWords) {
  EXPECT_EQ(text_of(Syndrome::ack()), "ACK");
  EXPECT_EQ(text_of(Syndrome(0x00)), "ACK credits 0");
  EXPECT_EQ(text_of(Syndrome(0x1e)), "ACK credits 32768");
  EXPECT_EQ(text_of(Syndrome(0x20)), "RNR NAK wait 655.36 ms");
  EXPECT_EQ(text_of(Syndrome(0x21)), "RNR NAK wait 0.01 ms");
  EXPECT_EQ(text_of(Syndrome(0x2c)), "RNR NAK wait 0.64 ms");
  EXPECT_EQ(text_of(Syndrome(0x60)), "NAK PSN sequence error");
  EXPECT_EQ(text_of(Syndrome(0x61)), "NAK invalid request");
  EXPECT_EQ(text_of(Syndrome(0x62)), "NAK remote access error");
  EXPECT_EQ(text_of(Syndrome(0x63)), "NAK remote operational error");
  EXPECT_EQ(text_of(Syndrome(0x64)), "NAK invalid RD request");
  EXPECT_EQ(text_of(Syndrome(0x65)), "NAK reserved code 0x05");
  EXPECT_EQ(text_of(Syndrome(0x45)), "reserved syndrome 0x45");
  EXPECT_EQ(text_of(Syndrome(0xff)), "reserved syndrome 0xff");
}

// RFC 5952: lower case, no leading zeroes, "::" for the longest run of two or more zero groups.
TEST(Print, WritesAddressesAsPeopleDo) {
  EXPECT_EQ(text_of("00000000000000000000ffff0a0000ff"), "10.0.0.255");
  EXPECT_EQ(text_of("fe80000000000000505400fffe000001"), "fe80::5054:ff:fe00:1");
  EXPECT_EQ(text_of("00000000000000000000000000000000"), "::");
  EXPECT_EQ(text_of("00000000000000000000000000000001"), "::1");
  EXPECT_EQ(text_of("00010000000000000000000000000000"), "1::");
  EXPECT_EQ(text_of("20010db8000000010001000100010001"), "2001:db8:0:1:1:1:1:1");
  EXPECT_EQ(text_of("20010db8000000000001000000000001"), "2001:db8::1:0:0:1");
  EXPECT_EQ(text_of("20010000000000010000000000000001"), "2001:0:0:1::1");
  EXPECT_EQ(text_of("000102030405060708090a0b0c0d0e0f"), "1:203:405:607:809:a0b:c0d:e0f");
}

TEST(Print, ShowsTheEndsOfADatagram) {
  std::array<char, kPrintedPacketMax> buffer;
  const auto octets =
      hex("456b002c5a5f40004011cbf4 0a000001 0a000002 c12112b700180000"
          "0400ffff0000001180fffffdf6865342");
  const auto datagram = RoceDatagram::parse(octets);
  ASSERT_TRUE(datagram);
  EXPECT_EQ(print(*datagram, buffer),
            "10.0.0.1 > 10.0.0.2 sport 49441 CE  RC SEND Only  qp 0x000011 psn 0xfffffd A-  "
            "payload 0");
}

TEST(Print, ShowsTheEndsOfANativePacket) {
  std::array<char, kPrintedPacketMax> buffer;
  const auto octets = hex("7012375c000617d2 0400ffff0000001180fffffd 01020304 0000");
  const auto packet = NativePacketView::parse(octets);
  ASSERT_TRUE(packet);
  EXPECT_EQ(print(*packet, buffer),
            "lid 0x17d2 > 0x375c vl 7 sl 1  RC SEND Only  qp 0x000011 psn 0xfffffd A-  payload 0");
}

TEST(Print, IsCutWhereTheBufferEnds) {
  const auto octets = hex("0400ffff 00000011 80fffffd 01020300 ffffffff");
  const std::string whole = line_of(octets);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<char> buffer(size);
    EXPECT_EQ(print_transport(octets, buffer), whole.substr(0, size));
  }
}

// Every opcode with all ones in every field, behind the longest addresses.
TEST(Print, NoLineIsLongerThanTheMaximumSays) {
  std::size_t longest = 0;
  for (unsigned raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = describe(Opcode{static_cast<std::uint8_t>(raw)});
    if (!info.known()) continue;
    const bool no_payload = info.payload == PayloadRule::kNone;
    const std::size_t transport = 12U + info.header_octets + (no_payload ? 0U : 4096U) + 4U;
    Octets octets(8 + 40 + transport + 2, std::byte{0xff});
    Lrh{.lane = VirtualLane{15},
        .level = ServiceLevel{15},
        .next_header = LinkNextHeader::kGrh,
        .packet_words = static_cast<std::uint16_t>((48 + transport) / 4)}
        .emit(std::span<std::byte, Lrh::kSize>(octets.data(), Lrh::kSize));
    Grh grh{.payload_octets = static_cast<std::uint16_t>(transport)};
    grh.source.octets.fill(0xff);
    grh.destination.octets.fill(0xff);
    grh.emit(std::span<std::byte, Grh::kSize>(octets.data() + 8, Grh::kSize));
    octets[48] = static_cast<std::byte>(raw);
    octets[49] = std::byte{0xc0};
    octets[50] = std::byte{0x7f};
    std::array<char, 2 * kPrintedPacketMax> buffer;
    const auto packet = NativePacketView::parse(octets);
    ASSERT_TRUE(packet);
    const auto line = print(*packet, buffer);
    EXPECT_EQ(line.find("malformed"), line.npos) << line;
    longest = std::max(longest, line.size());
  }
  EXPECT_LE(longest, kPrintedPacketMax);
}

}  // namespace
}  // namespace verbatim::wire
