// SPDX-License-Identifier: Apache-2.0
#include "capture/capture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "capture/test_capture.h"
#include "wire/capture/erf.h"
#include "wire/crc/icrc.h"
#include "wire/headers/bth.h"
#include "wire/headers/ethernet.h"
#include "wire/headers/packet.h"
#include "wire/headers/roce_datagram.h"
#include "wire/headers/test_octets.h"

namespace verbatim::link {
namespace {

using test::Block;
using test::blocks_of;
using test::Folder;
using ::testing::HasSubstr;
using Octets = std::vector<std::byte>;

constexpr std::uint32_t kSectionBlock = 0x0a0d'0d0a;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kPacketBlock = 6;

wire::Gid ipv4(std::uint8_t last) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}};
}
wire::Gid ipv6(std::uint8_t last) {
  return {{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}};
}

Octets packet(const wire::Gid& from, const wire::Gid& to, std::uint16_t identification,
              std::size_t payload_octets = 40) {
  Octets octets(wire::Bth::kSize + payload_octets + wire::kIcrcSize, std::byte{0x33});
  wire::Bth bth;
  bth.opcode = wire::opcode_of(wire::Transport::kUc, wire::Operation::kSendOnly);
  bth.emit(std::span(octets).first<wire::Bth::kSize>());
  const auto seed = wire::IcrcSeed::roce_v2(from, to, 0xc123);
  const auto covered = std::span(octets).first(octets.size() - wire::kIcrcSize);
  wire::store_icrc(std::span(octets).last<wire::kIcrcSize>(),
                   wire::icrc_over_headers(seed.start(octets.size(), identification), covered));
  return octets;
}

Capture capture_to(const std::string& name) {
  std::string message;
  auto file = CaptureFile::open(name, message);
  EXPECT_TRUE(file.ok()) << message;
  return Capture(std::move(*file));
}

/// The frame of a packet block, and the flags of its option 2 (0: it has none).
struct Frame {
  Octets octets;
  std::uint32_t interface = 0;
  std::uint32_t flags = 0;
};
Frame frame_of(const Block& block) {
  EXPECT_EQ(block.type, kPacketBlock);
  const std::byte* at = block.body.data();
  const auto length = load_be_at<std::uint32_t>(at + 12);
  EXPECT_EQ(length, load_be_at<std::uint32_t>(at + 16));
  Frame frame;
  frame.octets.assign(at + 20, at + 20 + length);
  frame.interface = load_be_at<std::uint32_t>(at);
  const std::byte* options = at + 20 + (length + 3) / 4 * 4;
  if (load_be_at<std::uint16_t>(options) == 2) {
    frame.flags = load_be_at<std::uint32_t>(options + 4);
  }
  return frame;
}

/// The native packet behind the header of its record.
Octets packet_of(const Frame& frame) {
  return {frame.octets.begin() + wire::ErfHeader::kSize, frame.octets.end()};
}

wire::RoceDatagram datagram_in(const Frame& frame) {
  auto datagram = wire::RoceDatagram::parse(std::span(frame.octets).subspan(wire::Ethernet::kSize));
  EXPECT_TRUE(datagram.ok());
  return datagram.ok() ? *datagram : wire::RoceDatagram{};
}

/// rc_send_only-local-len2 and rc_send_only-global-len2 of tests/golden/ib_native.json.
struct Native {
  Octets headers;
  Octets transport;
  Octets vcrc;
  [[nodiscard]] Octets whole() const {
    Octets octets(headers);
    octets.insert(octets.end(), transport.begin(), transport.end());
    octets.insert(octets.end(), vcrc.begin(), vcrc.end());
    return octets;
  }
};
Native local_packet() {
  using wire::test::hex;
  return {.headers = hex("0042000200070001"),
          .transport = hex("0460ffff0000004c0000000c938b0000db74aa95"),
          .vcrc = hex("1b79")};
}
Native global_packet() {
  using wire::test::hex;
  return {.headers = hex("0043000200110001 6000000000141bff fe800000000000000000000000010001"
                         "fe800000000000000000000000010002"),
          .transport = hex("0460ffff0000004c0000000c3195000073a9b19b"),
          .vcrc = hex("3f56")};
}
constexpr wire::LocalRoute kRoute{
    .source = wire::Lid{1}, .destination = wire::Lid{2}, .level = wire::ServiceLevel{4}};

TEST(Capture, StartsWithASectionAndItsInterfaces) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  Capture capture = capture_to(name);
  EXPECT_EQ(capture.add_interface("vb0"), 0U);
  EXPECT_EQ(capture.add_interface("vb1"), 1U);
  EXPECT_EQ(capture.add_interface("vb0"), 0U);
  const auto blocks = blocks_of(name);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].type, kSectionBlock);
  EXPECT_EQ(blocks[1].type, kInterfaceBlock);
  EXPECT_EQ(blocks[2].type, kInterfaceBlock);
}

TEST(Capture, ASentPacketIsTheFrameThatLeft) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  Capture capture = capture_to(name);
  const auto interface = capture.add_interface("vb0");
  const Octets sent = packet(ipv4(1), ipv4(2), 3);
  capture.record_sent(interface,
                      {.source = ipv4(1),
                       .destination = ipv4(2),
                       .source_port = 0xc123,
                       .traffic_class = 0x2a,
                       .hop_limit = 0},
                      sent, 3);
  capture.flush();
  const auto blocks = blocks_of(name);
  ASSERT_EQ(blocks.size(), 3U);
  const Frame frame = frame_of(blocks[2]);
  EXPECT_EQ(frame.flags, 2U);
  const auto datagram = datagram_in(frame);
  EXPECT_EQ(datagram.envelope.source, ipv4(1));
  EXPECT_EQ(datagram.envelope.destination, ipv4(2));
  EXPECT_EQ(datagram.envelope.source_port, 0xc123);
  EXPECT_EQ(datagram.envelope.ipv4_identification, 3);
  EXPECT_EQ(datagram.envelope.traffic_class, 0x2a);
  EXPECT_EQ(datagram.envelope.hop_limit, 64);
  EXPECT_EQ(Octets(datagram.transport.begin(), datagram.transport.end()), sent);
}

TEST(Capture, ATrainThatArrivedIsItsPacketsWithTheirIdentifications) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  Capture capture = capture_to(name);
  const auto interface = capture.add_interface("vb0");
  Octets train;
  for (std::uint16_t number = 0; number < 3; ++number) {
    const Octets one = packet(ipv4(1), ipv4(2), number, number == 2 ? 8 : 40);
    train.insert(train.end(), one.begin(), one.end());
  }
  capture.record_received(interface, {.source = ipv4(1),
                                      .destination = ipv4(2),
                                      .source_port = 0xc123,
                                      .traffic_class = 1,
                                      .hop_limit = 63,
                                      .octets = train,
                                      .segment_octets = 56});
  capture.flush();
  const auto blocks = blocks_of(name);
  ASSERT_EQ(blocks.size(), 5U);
  for (std::uint16_t number = 0; number < 3; ++number) {
    const Frame frame = frame_of(blocks[2U + number]);
    EXPECT_EQ(frame.flags, 1U);
    const auto datagram = datagram_in(frame);
    EXPECT_EQ(datagram.envelope.ipv4_identification, number);
    EXPECT_EQ(datagram.envelope.hop_limit, 63);
    EXPECT_EQ(datagram.transport.size(), number == 2 ? 24U : 56U);
  }
}

TEST(Capture, KnowsIpv6) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  Capture capture = capture_to(name);
  const auto interface = capture.add_interface("vb0");
  const Octets one = packet(ipv6(1), ipv6(2), 0);
  capture.record_received(
      interface, {.source = ipv6(1), .destination = ipv6(2), .source_port = 0xc123, .octets = one});
  capture.flush();
  const Frame frame = frame_of(blocks_of(name).at(2));
  EXPECT_EQ(wire::EthernetView::parse(frame.octets)->type(), wire::EtherType::kIpv6);
  EXPECT_EQ(datagram_in(frame).envelope.source, ipv6(1));
}

TEST(Capture, MoreThanTheBufferHoldsIsWrittenOnTheWay) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  constexpr std::size_t kCount = 1000;
  {
    Capture capture = capture_to(name);
    const auto interface = capture.add_interface("vb0");
    const Octets one = packet(ipv4(1), ipv4(2), 0, 4096);
    for (std::size_t i = 0; i < kCount; ++i) {
      capture.record_sent(interface, {.source = ipv4(1), .destination = ipv4(2)}, one, 0);
    }
    EXPECT_GT(blocks_of(name).size(), kCount / 2);
  }
  EXPECT_EQ(blocks_of(name).size(), 2 + kCount);
}

TEST(Capture, SaysWhenItWantsToWrite) {
  const Folder folder;
  Capture capture = capture_to(folder.file("run.pcapng"));
  const auto interface = capture.add_interface("vb0");
  EXPECT_EQ(capture.next_flush(), Instant::never());
  const Octets one = packet(ipv4(1), ipv4(2), 0);
  capture.record_sent(interface, {.source = ipv4(1), .destination = ipv4(2)}, one, 0);
  EXPECT_LT(capture.next_flush(), Instant::never());
  capture.flush();
  EXPECT_EQ(capture.next_flush(), Instant::never());
}

TEST(Capture, AFullDiskEndsItWithOneMessage) {
  ::testing::internal::CaptureStderr();
  {
    Capture capture = capture_to("/dev/full");
    const auto interface = capture.add_interface("vb0");
    const Octets one = packet(ipv4(1), ipv4(2), 0);
    for (int i = 0; i < 3; ++i) {
      capture.record_sent(interface, {.source = ipv4(1), .destination = ipv4(2)}, one, 0);
      capture.flush();
    }
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("'/dev/full'"));
  EXPECT_THAT(said, HasSubstr("No space left"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1);
}

/// In a process of its own: the capture of a process is never closed.
template <typename Body>
int in_a_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int result = body();
    Capture::flush_at_exit();
    ::_exit(result);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Capture, AProcessHasOneAndItsChildAnother) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  const Octets one = packet(ipv4(1), ipv4(2), 0);
  const auto record = [&](int count) {
    std::string message;
    auto capture = Capture::for_process(name, message);
    if (!capture) return 1;
    const auto interface = (*capture)->add_interface("vb0");
    for (int i = 0; i < count; ++i) {
      (*capture)->record_sent(interface, {.source = ipv4(1), .destination = ipv4(2)}, one, 0);
    }
    return 0;
  };
  pid_t child = 0;
  const int ended = in_a_child([&] {
    if (record(1) != 0 || record(1) != 0) return 1;
    child = ::fork();
    if (child == 0) {  // what the parent has collected is not the child's
      const int result = record(3);
      Capture::flush_at_exit();
      ::_exit(result);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) return 2;
    if (blocks_of(capture_name_beside(name, child)).size() != 5) return 3;
    return record(1);
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(blocks_of(name).size(), 5U);  // 2 + 1 + 1 + 1, written at exit
  EXPECT_EQ(folder.count(), 2U);
}

TEST(Capture, APacketOfAFabricIsRecordedFromItsRouteToItsVcrc) {
  const Folder folder;
  const std::string name = folder.file("run.pcapng");
  Capture capture = capture_to(name);
  const auto interface = capture.add_interface("vib0", wire::CaptureLinkType::kErf);
  const Native local = local_packet();
  const Native global = global_packet();
  wire::Gid source{{0xfe, 0x80}};
  source.octets[13] = source.octets[15] = 1;
  wire::Gid destination = source;
  destination.octets[15] = 2;
  capture.record_sent(interface, {.local = kRoute}, local.transport, 0);
  capture.record_received(interface, {.source = source,
                                      .destination = destination,
                                      .hop_limit = 0xff,
                                      .local = kRoute,
                                      .octets = global.transport});
  capture.flush();
  const auto blocks = blocks_of(name);
  ASSERT_EQ(blocks.size(), 4U);
  constexpr std::uint16_t kErf = 197;
  EXPECT_EQ(load_be_at<std::uint16_t>(blocks[1].body.data()), kErf);
  EXPECT_EQ(packet_of(frame_of(blocks[2])), local.whole());
  EXPECT_EQ(frame_of(blocks[2]).flags, 2U);
  EXPECT_EQ(packet_of(frame_of(blocks[3])), global.whole());
  EXPECT_EQ(frame_of(blocks[3]).flags, 1U);
}

}  // namespace
}  // namespace verbatim::link
