// SPDX-License-Identifier: Apache-2.0
#include "capture/capturing_link.h"

#include <gtest/gtest.h>

#include "capture/test_capture.h"
#include "link/faulty_link.h"
#include "link/test_link.h"
#include "wire/headers/ethernet.h"
#include "wire/headers/roce_datagram.h"

namespace verbatim::link {
namespace {

using test::at_ms;
using test::FakeLink;
using test::put;
using Psns = std::vector<std::uint32_t>;

class CapturingLinkTest : public ::testing::Test {
 protected:
  static Capture open(const std::string& name) {
    std::string message;
    auto file = CaptureFile::open(name, message);
    EXPECT_TRUE(file.ok()) << message;
    return Capture(std::move(*file));
  }
  struct Recorded {
    Psns psns;
    std::vector<std::uint16_t> identifications;
  };
  /// The packets in the file, in its order.
  Recorded recorded() {
    constexpr std::size_t kBlocksBefore = 2;  // section and interface
    constexpr std::size_t kFrameAt = 20;
    Recorded all;
    capture.flush();
    const auto blocks = test::blocks_of(name);
    for (std::size_t i = kBlocksBefore; i < blocks.size(); ++i) {
      const auto& body = blocks[i].body;
      const auto length = load_be_at<std::uint32_t>(body.data() + 12);
      const auto frame = std::span(body).subspan(kFrameAt, length);
      const auto datagram = wire::RoceDatagram::parse(frame.subspan(wire::Ethernet::kSize));
      EXPECT_TRUE(datagram.ok());
      if (!datagram) continue;
      all.psns.push_back(test::psn_of(datagram->transport));
      all.identifications.push_back(datagram->envelope.ipv4_identification);
    }
    return all;
  }
  static void send_all(Link& through, std::uint32_t count) {
    for (std::uint32_t psn = 1; psn <= count; ++psn) put(through, at_ms(0), psn);
    through.flush(at_ms(0));
  }

  const test::Folder folder;
  const std::string name = folder.file("run.pcapng");
  FakeLink inner;
  Capture capture = open(name);
  CapturingLink link{inner, capture, capture.add_interface("vb0")};
};

TEST_F(CapturingLinkTest, EveryPacketOfATrainIsRecordedWithItsNumber) {
  send_all(link, 3);
  EXPECT_EQ(inner.sent_psns(), (Psns{1, 2, 3}));
  EXPECT_EQ(inner.sends, 1U);
  const auto all = recorded();
  EXPECT_EQ(all.psns, (Psns{1, 2, 3}));
  EXPECT_EQ(all.identifications, (std::vector<std::uint16_t>{0, 1, 2}));
}

TEST_F(CapturingLinkTest, WhatDidNotLeaveIsNotRecorded) {
  inner.lost_psn = 2;
  send_all(link, 3);
  EXPECT_EQ(recorded().psns, (Psns{1, 3}));
}

TEST_F(CapturingLinkTest, WhatArrivesIsRecordedPacketByPacketAndPassedOn) {
  inner.let_arrive({7, 8});
  inner.let_arrive({9});
  EXPECT_EQ(test::received_psns(link, at_ms(0)), (Psns{7, 8, 9}));
  const auto all = recorded();
  EXPECT_EQ(all.psns, (Psns{7, 8, 9}));
  EXPECT_EQ(all.identifications, (std::vector<std::uint16_t>{0, 1, 0}));
}

TEST_F(CapturingLinkTest, ForwardedPacketsAreRecorded) {
  const Outgoing to = test::outgoing();
  std::vector<std::byte> packet(kFrameOctets);
  packet.resize(test::write_packet(packet, to, 9, 0));
  const Incoming about{.source = to.source,
                       .destination = to.destination,
                       .source_port = to.source_port,
                       .octets = packet};
  EXPECT_TRUE(link.admit_forwarded(at_ms(0), about, packet));
  EXPECT_EQ(recorded().psns, (Psns{9}));
}

TEST_F(CapturingLinkTest, AsksForTheHeadersOfIncomingPackets) { EXPECT_TRUE(inner.tells_headers); }

TEST_F(CapturingLinkTest, IsDueWhenTheCaptureIs) {
  EXPECT_EQ(link.next_due(), Instant::never());
  send_all(link, 1);
  EXPECT_EQ(link.next_due(), capture.next_flush());
  inner.due = at_ms(0);
  EXPECT_EQ(link.next_due(), at_ms(0));
}

TEST_F(CapturingLinkTest, ClosingWritesWhatIsThere) {
  send_all(link, 2);
  link.close();
  EXPECT_TRUE(inner.is_closed());
  EXPECT_EQ(test::blocks_of(name).size(), 2U + 2U);
  EXPECT_EQ(link.next_due(), Instant::never());
}

TEST_F(CapturingLinkTest, LiesBetweenFaultsAndTheNetwork) {
  FaultyLink faulty(link, test::rules_of("out drop first=1; in drop first=1"));
  send_all(faulty, 3);
  EXPECT_EQ(inner.sent_psns(), (Psns{2, 3}));
  inner.let_arrive({7, 8});
  EXPECT_EQ(test::received_psns(faulty, at_ms(0)), (Psns{8}));
  EXPECT_EQ(recorded().psns, (Psns{2, 3, 7, 8})) << "what really left and really arrived";
}

TEST_F(CapturingLinkTest, AroundFaultsItRecordsWhatTheyLetThrough) {
  FakeLink bottom;
  FaultyLink faulty(bottom, test::rules_of("out drop first=1; in drop first=1"));
  CapturingLink around(faulty, capture, 0);
  send_all(around, 2);
  bottom.let_arrive({7, 8});
  EXPECT_EQ(test::received_psns(around, at_ms(0)), (Psns{8}));
  EXPECT_EQ(recorded().psns, (Psns{2, 8}));
}

}  // namespace
}  // namespace verbatim::link
