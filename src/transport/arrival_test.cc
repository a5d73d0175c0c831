// SPDX-License-Identifier: Apache-2.0
#include "transport/arrival.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "transport/test_fixture.h"

namespace verbatim::transport {
namespace {

using namespace test;
using wire::Operation;
using wire::Transport;

constexpr QpType kTypes[] = {QpType::kSmi,          QpType::kGsi,      QpType::kRc,
                             QpType::kUc,           QpType::kUd,       QpType::kRawPacket,
                             QpType::kXrcInitiator, QpType::kXrcTarget};

wire::Gid gid(std::uint8_t last) {
  wire::Gid made;
  made.octets.back() = last;
  return made;
}

/// Why a packet from `source` to `destination` is dropped, where the path is from 1 to 2.
std::optional<PacketDrop> fault_of(QpType type, wire::Opcode opcode,
                                   wire::PKey pkey = wire::PKey::kDefault, std::uint8_t source = 2,
                                   std::uint8_t destination = 1) {
  static constexpr std::array<std::byte, kGrhOctets> kHeader{};
  Path path;
  path.source = gid(1);
  path.destination = gid(2);
  wire::PacketHeaders headers;
  headers.bth.opcode = opcode;
  headers.bth.pkey = pkey;
  const TestPacket packet(headers);
  const auto view = packet.view();
  return find_fault(type, path,
                    {.packet = view,
                     .source = gid(source),
                     .destination = gid(destination),
                     .network_header = kHeader});
}

wire::Opcode send_of(QpType type) {
  return wire::opcode_of(transport_of(type), Operation::kSendOnly);
}

TEST(Arrival, EachServiceTakesItsOwnRequestsAlone) {
  for (const QpType type : kTypes) {
    for (const auto transport : {Transport::kRc, Transport::kUc, Transport::kUd, Transport::kXrc}) {
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(type) << " " << static_cast<int>(transport));
      const bool takes = transport == transport_of(type) && type != QpType::kRawPacket &&
                         type != QpType::kXrcInitiator;
      EXPECT_EQ(fault_of(type, wire::opcode_of(transport, Operation::kSendOnly)),
                takes ? std::nullopt : std::optional(PacketDrop::kWrongTransport));
    }
  }
}

TEST(Arrival, OfXrcTheInitiatorAloneTakesResponses) {
  const auto response = wire::opcode_of(Transport::kXrc, Operation::kAcknowledge);
  EXPECT_EQ(fault_of(QpType::kXrcInitiator, response), std::nullopt);
  EXPECT_EQ(fault_of(QpType::kXrcTarget, response), PacketDrop::kWrongTransport);
}

TEST(Arrival, CongestionNotificationsAreOfEveryService) {
  for (const QpType type : kTypes) EXPECT_EQ(fault_of(type, wire::Opcode::kCnp), std::nullopt);
}

TEST(Arrival, OnlyDatagramsComeFromAnywhere) {
  for (const QpType type :
       {QpType::kRc, QpType::kUc, QpType::kXrcTarget, QpType::kUd, QpType::kGsi}) {
    SCOPED_TRACE(static_cast<int>(type));
    const auto expected =
        is_datagram(type) ? std::nullopt : std::optional(PacketDrop::kWrongSource);
    EXPECT_EQ(fault_of(type, send_of(type), wire::PKey::kDefault, 3, 1), expected);
    EXPECT_EQ(fault_of(type, send_of(type), wire::PKey::kDefault, 2, 3), expected);
    EXPECT_EQ(fault_of(type, send_of(type), wire::PKey::kDefault, 1, 2), expected);
  }
}

TEST(Arrival, ThePartitionIsCheckedBeforeTheSource) {
  for (const QpType type :
       {QpType::kRc, QpType::kUc, QpType::kXrcTarget, QpType::kUd, QpType::kGsi}) {
    SCOPED_TRACE(static_cast<int>(type));
    EXPECT_EQ(fault_of(type, send_of(type), wire::PKey{0x8001}, 3, 3), PacketDrop::kWrongPartition);
    EXPECT_EQ(fault_of(type, send_of(type), wire::PKey{0x7fff}), std::nullopt)
        << "a limited member";
  }
}

}  // namespace
}  // namespace verbatim::transport
