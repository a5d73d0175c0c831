// SPDX-License-Identifier: Apache-2.0
// Faults and captures where they meet the sockets: with trains, whose packets' places the ICRC
// covers.
#include <gtest/gtest.h>

#include <algorithm>

#include "capture/capturing_link.h"
#include "capture/test_capture.h"
#include "link/faulty_link.h"
#include "udp/test_network.h"
#include "udp/udp_link.h"
#include "wire/crc/icrc.h"
#include "wire/headers/bth.h"
#include "wire/headers/packet.h"

namespace verbatim::link {
namespace {

using test::Octets;
using test::own_address;
using Psns = std::vector<std::uint32_t>;

FaultRules rules(std::string_view text) {
  std::string message;
  auto parsed = parse_fault_rules(text, message);
  EXPECT_TRUE(parsed.ok()) << message;
  return parsed.ok() ? std::move(parsed).value() : FaultRules{};
}

class UdpLinkFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::open_on(a, {{.gid = address_a}}, 0, UdpLink::Trains::kYes).ok());
    ASSERT_TRUE(test::open_on(b, {{.gid = address_b}}, 0, UdpLink::Trains::kYes).ok());
    to = {
        .source = address_a, .destination = address_b, .source_port = a.source_port(address_a, 0)};
  }

  /// As the transport does it: the ICRC for the place in the train that the frame names.
  void send(std::uint32_t psn, std::size_t payload_octets = 400) {
    const Frame frame = from->next_frame();
    const std::size_t octets = wire::Bth::kSize + payload_octets + wire::kIcrcSize;
    const auto packet = frame.octets.first(octets);
    std::fill(packet.begin(), packet.end(), std::byte{0});
    wire::Bth bth;
    bth.opcode = wire::opcode_of(wire::Transport::kRc, wire::Operation::kSendOnly);
    bth.psn = wire::Psn(psn);
    bth.emit(packet.first<wire::Bth::kSize>());
    wire::store_icrc(packet.last<wire::kIcrcSize>(),
                     wire::icrc_over_headers(seed().start(octets, frame.identification),
                                             packet.first(octets - wire::kIcrcSize)));
    from->commit(test::now(), to, octets);
  }
  void send_all(std::uint32_t count) {
    for (std::uint32_t psn = 1; psn <= count; ++psn) send(psn);
    from->flush(test::now());
  }

  /// The PSNs that arrive until `count` have, or nothing more does; each packet has the number that
  /// its place in the train gives it, and a right ICRC.
  Psns take(std::size_t count) {
    Psns psns;
    while (psns.size() < count && test::wait_readable(b, test::kPatienceMs)) {
      for (const Incoming& incoming : b.receive(test::now())) {
        std::uint16_t place = 0;
        incoming.for_each_packet([&](std::span<const std::byte> packet) {
          EXPECT_EQ(wire::verify_icrc(seed(), packet), place++);
          psns.push_back(wire::BthView::parse(packet)->psn().raw());
        });
      }
    }
    return psns;
  }
  [[nodiscard]] wire::IcrcSeed seed() const {
    return wire::IcrcSeed::roce_v2(address_a, address_b, to.source_port);
  }

  const wire::Gid address_a = own_address(0);
  const wire::Gid address_b = own_address(1);
  Outgoing to{};
  UdpLink a;
  UdpLink b;
  Link* from = &a;  // what the test sends through: a link around `a`, or `a` itself
};

TEST_F(UdpLinkFaults, ATrainClosesUpBehindALostPacket) {
  FaultyLink faulty(a, rules("out drop first=1 after=1"));
  from = &faulty;
  send_all(5);
  EXPECT_EQ(take(4), (Psns{1, 3, 4, 5}));
}

TEST_F(UdpLinkFaults, CopiesAndLatecomersGetTheNumberOfTheirNewPlace) {
  FaultyLink faulty(a, rules("out duplicate first=1 after=1; out reorder first=1 after=3 by=2"));
  from = &faulty;
  send_all(6);
  EXPECT_EQ(take(7), (Psns{1, 2, 2, 3, 5, 6, 4}));
  EXPECT_EQ(a.counters().trains_sent, 1U);
  EXPECT_EQ(a.counters().packets_sent, 7U);
}

TEST_F(UdpLinkFaults, WhatIsDelayedLeavesWhenItIsDue) {
  FaultyLink faulty(a, rules("out delay 300ms first=1"));
  from = &faulty;
  EXPECT_EQ(faulty.next_due(), Instant::never());
  send_all(2);
  EXPECT_EQ(take(1), (Psns{2}));
  EXPECT_LT(faulty.next_due(), Instant::never());
  while (faulty.next_due() != Instant::never()) faulty.flush(test::now());
  EXPECT_EQ(take(1), (Psns{1}));
}

TEST_F(UdpLinkFaults, WhatIsLostOnArrivalHasArrivedForTheCapture) {
  const test::Folder folder;
  std::string message;
  auto file = CaptureFile::open(folder.file("b.pcapng"), message);
  ASSERT_TRUE(file.ok()) << message;
  Capture capture(std::move(*file));
  CapturingLink captured(b, capture, capture.add_interface("b"));
  FaultyLink faulty(captured, rules("in drop after=1"));
  send_all(3);
  std::size_t received = 0;
  while (faulty.counters().packets_received < 3 && test::wait_readable(faulty, test::kPatienceMs)) {
    received += faulty.receive(test::now()).size();  // with faults a packet is always alone
  }
  EXPECT_EQ(received, 1U);
  capture.flush();
  EXPECT_EQ(test::blocks_of(folder.file("b.pcapng")).size(), 2U + 3U);
  faulty.close();
}

TEST_F(UdpLinkFaults, ACaptureHasEveryPacketOfATrain) {
  const test::Folder folder;
  std::string message;
  auto file = CaptureFile::open(folder.file("a.pcapng"), message);
  ASSERT_TRUE(file.ok()) << message;
  Capture capture(std::move(*file));
  CapturingLink captured(a, capture, capture.add_interface("a"));
  from = &captured;
  send_all(5);
  EXPECT_EQ(take(5).size(), 5U);
  capture.flush();
  const auto blocks = test::blocks_of(folder.file("a.pcapng"));
  ASSERT_EQ(blocks.size(), 2U + 5U);
  constexpr std::size_t kIdentificationAt = 20 + 14 + 4;  // block, Ethernet, IPv4
  for (std::uint16_t place = 0; place < 5; ++place) {
    const std::byte* at = blocks[2U + place].body.data() + kIdentificationAt;
    EXPECT_EQ(load_be_at<std::uint16_t>(at), place);
  }
  captured.close();
}

}  // namespace
}  // namespace verbatim::link
