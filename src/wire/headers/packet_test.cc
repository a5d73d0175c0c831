// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/packet.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

/// A packet of any opcode: BTH, as many header octets as it has, payload, padding, ICRC.
Octets packet_of(unsigned opcode, unsigned header_octets, unsigned payload) {
  const unsigned pad = (4 - payload % 4) % 4;
  Octets octets(12 + header_octets + payload + pad + 4, std::byte{0x5a});
  octets[0] = static_cast<std::byte>(opcode);
  octets[1] = static_cast<std::byte>(pad << 4);
  return octets;
}

PacketView parsed(const Octets& octets) {
  auto view = PacketView::parse(octets);
  EXPECT_TRUE(view);
  return view.value();
}

WireError refused(const Octets& octets) {
  const auto view = PacketView::parse(octets);
  EXPECT_FALSE(view);
  return view ? WireError{255} : view.error();
}

// The sample packet of the specification's appendix, from BTH to ICRC.
TEST(PacketView, ReadsTheSpecificationsSample) {
  const auto octets =
      hex("0a202487 0087b1b3 000dec2a 01710a1c015d4002 38f27a05 0000000e"
          "bb884d85fd5cfba4728bc0690ed4 0000 9625b75a");
  const PacketView packet = parsed(octets);
  EXPECT_EQ(packet.opcode(), opcode_of(Transport::kRc, Operation::kWriteOnly));
  EXPECT_EQ(packet.transport(), Transport::kRc);
  EXPECT_EQ(packet.operation(), Operation::kWriteOnly);
  EXPECT_EQ(packet.psn(), Psn(0x0dec2a));
  EXPECT_EQ(packet.bth().dest_qp(), QpNumber{0x87b1b3});
  EXPECT_EQ(packet.reth().address, 0x0171'0a1c'015d'4002U);
  EXPECT_EQ(packet.reth().rkey, MemoryKey{0x38f27a05});
  EXPECT_EQ(packet.reth().dma_octets, 14U);
  EXPECT_EQ(Octets(packet.payload().begin(), packet.payload().end()),
            hex("bb884d85fd5cfba4728bc0690ed4"));
  EXPECT_EQ(Octets(packet.icrc().begin(), packet.icrc().end()), hex("9625b75a"));
  EXPECT_EQ(packet.octets().size(), octets.size());
}

TEST(PacketView, PaddingIsNotPayload) {
  for (unsigned payload = 0; payload <= 9; ++payload) {
    const auto octets = packet_of(0x04, 0, payload);
    EXPECT_EQ(parsed(octets).payload().size(), payload);
  }
}

TEST(PacketView, EveryTruncationOfEveryOpcodeIsRefusedOrHasLessPayload) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = describe(Opcode{static_cast<std::uint8_t>(raw)});
    if (!info.known()) continue;
    const unsigned payload = info.payload == PayloadRule::kNone ? 0 : 8;
    const auto octets = packet_of(raw, info.header_octets, payload);
    ASSERT_TRUE(PacketView::parse(octets)) << info.name;
    for (std::size_t size = 0; size < octets.size(); ++size) {
      // A copy of the exact size, so that a read past the end shows.
      const Octets cut(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(size));
      const auto view = PacketView::parse(cut);
      const std::size_t least = 12U + info.header_octets + 4U;
      EXPECT_EQ(view.ok(), size >= least && size % 4 == 0) << info.name << ' ' << size;
      if (view) {
        EXPECT_EQ(view->payload().size(), size - least);
      } else {
        EXPECT_EQ(view.error(), size < least ? WireError::kTruncated : WireError::kBadPadding);
      }
    }
  }
}

TEST(PacketView, RefusesUndefinedOpcodes) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    if (describe(Opcode{static_cast<std::uint8_t>(raw)}).known()) continue;
    EXPECT_EQ(refused(packet_of(raw, 64, 0)), WireError::kUnknownOpcode) << raw;
  }
}

TEST(PacketView, RefusesAnotherTransportVersion) {
  auto octets = packet_of(0x04, 0, 4);
  octets[1] |= std::byte{1};
  EXPECT_EQ(refused(octets), WireError::kBadVersion);
}

TEST(PacketView, RefusesPayloadBehindHeadersThatEndAPacket) {
  EXPECT_EQ(refused(packet_of(0x0c, 16, 4)), WireError::kUnexpectedPayload);
  EXPECT_EQ(refused(packet_of(0x11, 4, 4)), WireError::kUnexpectedPayload);
  EXPECT_EQ(refused(packet_of(0x81, 16, 8)), WireError::kUnexpectedPayload);
}

TEST(PacketView, RefusesPaddingThatIsNotThere) {
  auto octets = packet_of(0x04, 0, 0);
  octets[1] = std::byte{0x30};
  EXPECT_EQ(refused(octets), WireError::kTruncated);
}

TEST(PacketHeaders, AreWrittenInTheOrderOfTheWire) {
  PacketHeaders headers;
  headers.bth = {.opcode = Opcode{0xab}, .dest_qp = QpNumber{0x22}, .psn = Psn(0x33)};
  headers.xrceth.srq = SrqNumber{0x44};
  headers.reth = {.address = 0x5566, .rkey = MemoryKey{0x77}, .dma_octets = 0x88};
  std::memcpy(&headers.imm_dt.immediate, "\x01\x02\x03\x04", 4);
  headers.deth.qkey = QKey{0xdead};  // not of this opcode, so not sent
  Octets octets(headers.octet_count(), std::byte{0xff});
  headers.emit(octets);
  EXPECT_EQ(octets, hex("ab00ffff 00000022 00000033 00000044 0000000000005566 00000077 00000088"
                        "01020304"));
}

TEST(PacketHeaders, NothingOfAReusedBufferLeaks) {
  PacketHeaders headers;
  headers.bth = {.opcode = Opcode::kCnp, .becn = true, .dest_qp = QpNumber{0x118}};
  Octets octets(headers.octet_count(), std::byte{0xff});
  headers.emit(octets);
  EXPECT_EQ(octets, hex("8100ffff 40000118 00000000 00000000 00000000 00000000 00000000"));
}

TEST(PacketHeaders, SurviveTheRoundTripForEveryOpcode) {
  Prng prng(5);
  for (unsigned raw = 0; raw < 256; ++raw) {
    const OpcodeInfo& info = describe(Opcode{static_cast<std::uint8_t>(raw)});
    if (!info.known()) continue;
    PacketHeaders sent;
    sent.bth = {.opcode = Opcode{static_cast<std::uint8_t>(raw)},
                .dest_qp = QpNumber{test::random<std::uint32_t>(prng) & kQpNumberMask},
                .psn = Psn(test::random<std::uint32_t>(prng))};
    sent.deth = {.qkey = QKey{test::random<std::uint32_t>(prng)}, .source_qp = QpNumber{7}};
    sent.xrceth = {.srq = SrqNumber{9}};
    sent.feth = {.selectivity = 1, .placement = 2};
    sent.reth = {.address = prng.next(), .rkey = MemoryKey{11}, .dma_octets = 12};
    sent.atomic_eth = {.address = prng.next(), .rkey = MemoryKey{13}, .compare = prng.next()};
    sent.aeth = {.syndrome = Syndrome::rnr(3), .msn = 14};
    sent.atomic_ack_eth = {.original = prng.next()};
    sent.imm_dt = {.immediate = Immediate{test::random<std::uint32_t>(prng)}};
    sent.ieth = {.rkey = MemoryKey{test::random<std::uint32_t>(prng)}};
    Octets octets(sent.octet_count() + kIcrcSize);
    sent.emit(octets);

    const PacketView got = parsed(octets);
    EXPECT_EQ(got.bth().psn(), sent.bth.psn) << info.name;
    if (info.has(OpcodeInfo::kDeth)) {
      EXPECT_EQ(got.deth().qkey, sent.deth.qkey);
    }
    if (info.has(OpcodeInfo::kXrcEth)) {
      EXPECT_EQ(got.xrceth().srq, sent.xrceth.srq);
    }
    if (info.has(OpcodeInfo::kFeth)) {
      EXPECT_EQ(got.feth().placement, sent.feth.placement);
    }
    if (info.has(OpcodeInfo::kReth)) {
      EXPECT_EQ(got.reth().address, sent.reth.address);
    }
    if (info.has(OpcodeInfo::kAtomicEth)) {
      EXPECT_EQ(got.atomic_eth().compare, sent.atomic_eth.compare);
    }
    if (info.has(OpcodeInfo::kAeth)) {
      EXPECT_EQ(got.aeth().syndrome, sent.aeth.syndrome);
    }
    if (info.has(OpcodeInfo::kAtomicAckEth)) {
      EXPECT_EQ(got.atomic_ack_eth().original, sent.atomic_ack_eth.original);
    }
    if (info.has(OpcodeInfo::kImmDt)) {
      EXPECT_EQ(got.imm_dt().immediate, sent.imm_dt.immediate);
    }
    if (info.has(OpcodeInfo::kIeth)) {
      EXPECT_EQ(got.ieth().rkey, sent.ieth.rkey);
    }
  }
}

TEST(PacketHeaders, NoOpcodeNeedsMoreRoomThanTheMaximumSays) {
  for (unsigned raw = 0; raw < 256; ++raw) {
    EXPECT_LE(12U + describe(Opcode{static_cast<std::uint8_t>(raw)}).header_octets + 4096U + 4U,
              kMaxTransportOctets);
  }
}

}  // namespace
}  // namespace verbatim::wire
