// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/data_headers.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "wire/headers/bth.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/grh.h"
#include "wire/headers/lrh.h"
#include "wire/headers/packet.h"

namespace verbatim::tools {
namespace {

using wire::Lid;
using wire::LinkNextHeader;

constexpr wire::Opcode kUdSend = opcode_of(wire::Transport::kUd, wire::Operation::kSendOnly);
constexpr wire::Opcode kRcSend = opcode_of(wire::Transport::kRc, wire::Operation::kSendOnly);

struct Made {
  wire::Opcode opcode = kRcSend;
  bool is_global = false;
  std::size_t payload = 64;
  wire::QpNumber dest_qp{0x20007};
  wire::VirtualLane lane{};
  Lid destination{2};
};

std::vector<std::byte> packet_of(const Made& made) {
  const std::size_t grh = made.is_global ? wire::Grh::kSize : 0;
  const bool has_deth = wire::describe(made.opcode).has(wire::OpcodeInfo::kDeth);
  const std::size_t transport =
      wire::Bth::kSize + (has_deth ? wire::Deth::kSize : 0) + made.payload + wire::kIcrcSize;
  std::vector<std::byte> packet(wire::Lrh::kSize + grh + transport);
  const std::span<std::byte> all(packet);
  wire::Lrh{.lane = made.lane,
            .level = wire::ServiceLevel{3},
            .next_header = made.is_global ? LinkNextHeader::kGrh : LinkNextHeader::kBth,
            .destination = made.destination,
            .packet_words = static_cast<std::uint16_t>(packet.size() / 4),
            .source = Lid{1}}
      .emit(all.first<wire::Lrh::kSize>());
  if (made.is_global) {
    wire::Grh{.payload_octets = static_cast<std::uint16_t>(transport)}.emit(
        all.subspan<wire::Lrh::kSize, wire::Grh::kSize>());
  }
  const auto behind = all.subspan(wire::Lrh::kSize + grh);
  wire::Bth{.opcode = made.opcode, .pkey = wire::PKey{0x8001}, .dest_qp = made.dest_qp}.emit(
      behind.first<wire::Bth::kSize>());
  if (has_deth) {
    wire::Deth{.source_qp = wire::QpNumber{0x10005}}.emit(
        behind.subspan<wire::Bth::kSize, wire::Deth::kSize>());
  }
  return packet;
}

auto parse(const std::vector<std::byte>& packet) {
  return data_packet_of(std::span(packet).first(std::min<std::size_t>(packet.size(), 96)),
                        packet.size());
}

TEST(DataHeaders, AFabricReadsWhatSwitchesRead) {
  const auto packet = parse(packet_of({}));
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->source, Lid{1});
  EXPECT_EQ(packet->destination, Lid{2});
  EXPECT_EQ(packet->level, wire::ServiceLevel{3});
  EXPECT_EQ(packet->pkey, wire::PKey{0x8001});
  EXPECT_EQ(packet->dest_qp, wire::QpNumber{0x20007});
  EXPECT_EQ(packet->words, (8 + 12 + 64 + 4) / 4);
  EXPECT_FALSE(packet->is_global);
  EXPECT_FALSE(packet->source_qp);
}

TEST(DataHeaders, GlobalPacketsAndDatagramsHaveMoreHeaders) {
  const auto packet = parse(packet_of({.opcode = kUdSend, .is_global = true, .payload = 4'096}));
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->is_global);
  EXPECT_EQ(packet->dest_qp, wire::QpNumber{0x20007});
  EXPECT_EQ(packet->source_qp, wire::QpNumber{0x10005});
}

TEST(DataHeaders, WhatProgramsCannotSendIsNoPacket) {
  EXPECT_FALSE(parse(packet_of({.dest_qp = wire::QpNumber::kSmi})));
  EXPECT_FALSE(parse(packet_of({.lane = wire::VirtualLane::kManagement})));
  for (const auto next : {LinkNextHeader::kRaw, LinkNextHeader::kRawIpv6}) {
    auto packet = packet_of({});
    packet[1] = static_cast<std::byte>(next);
    EXPECT_FALSE(parse(packet));
  }
}

TEST(DataHeaders, APacketToAGroupNamesNoQueuePair) {
  const Lid group{0xc001};
  EXPECT_FALSE(parse(packet_of({.opcode = kUdSend, .is_global = true, .destination = group})));
  EXPECT_TRUE(parse(packet_of({.opcode = kUdSend,
                               .is_global = true,
                               .dest_qp = wire::QpNumber::kMulticast,
                               .destination = group})));
}

TEST(DataHeaders, LengthsThatDoNotAgreeAreNoPacket) {
  for (const bool is_global : {false, true}) {
    auto packet = packet_of({.is_global = is_global});
    for (const std::size_t change : {4U, 20U}) {
      std::vector<std::byte> other = packet;
      other.resize(packet.size() + change);
      EXPECT_FALSE(parse(other));
      other.resize(packet.size() - change);
      EXPECT_FALSE(parse(other));
    }
  }
  auto packet = packet_of({.is_global = true});
  packet[wire::Lrh::kSize + 5] ^= std::byte{4};  // the payload length of the GRH
  EXPECT_FALSE(parse(packet));
  for (std::size_t octets = 0; octets <= 96; ++octets) {
    auto cut = packet_of({.opcode = kUdSend, .is_global = true});
    cut.resize(octets);
    cut.shrink_to_fit();  // so that the sanitizer sees an access behind it
    (void)data_packet_of(cut, octets);
    if (octets >= wire::Lrh::kSize) cut[5] = static_cast<std::byte>(octets / 4);
    (void)data_packet_of(cut, octets);
  }
}

TEST(DataHeaders, AnyOctetsAreReadSafely) {
  Prng prng(1);
  for (int round = 0; round < 100'000; ++round) {
    std::vector<std::byte> octets(prng.below(97));
    for (std::byte& octet : octets) octet = static_cast<std::byte>(prng.next());
    if (octets.size() > 5 && prng.below(2) == 0) {
      octets[0] = octets[4] = std::byte{0};
      octets[1] = static_cast<std::byte>(2 + prng.below(2));
      octets[5] = static_cast<std::byte>(octets.size() / 4);
    }
    (void)data_packet_of(octets, octets.size());
    (void)data_packet_of(octets, 4'352);
  }
}

}  // namespace
}  // namespace verbatim::tools
