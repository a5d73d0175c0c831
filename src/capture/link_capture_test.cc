// SPDX-License-Identifier: Apache-2.0
#include "capture/link_capture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

#include "capture/test_capture.h"
#include "wire/capture/erf.h"
#include "wire/headers/test_octets.h"

namespace verbatim::link {
namespace {

using test::Block;
using test::blocks_of;
using test::Folder;
using wire::test::hex;
using wire::test::Octets;
using Direction = wire::CapturedFrame::Direction;

constexpr std::uint32_t kPacketBlock = 6;
constexpr std::uint32_t kStatisticsBlock = 5;

/// rc_send_only-local-len2 of tests/golden/ib_native.json, without its VCRC 1b79.
Octets packet() { return hex("00420002000700010460ffff0000004c0000000c938b0000db74aa95"); }
/// The same on lane 7; its VCRC was computed bit by bit, by a program that gets 1b79 for the other
/// one.
Octets packet_on_lane_7() {
  return hex("70420002000700010460ffff0000004c0000000c938b0000db74aa95");
}

/// Waits for what must come, so a limit is for broken code only.
bool becomes_readable(int descriptor) {
  pollfd about{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&about, 1, 60'000) == 1;
}

Octets frame_of(const Block& block) {
  EXPECT_EQ(block.type, kPacketBlock);
  const auto length = load_be_at<std::uint32_t>(block.body.data() + 12);
  constexpr std::size_t kAt = 20 + wire::ErfHeader::kSize;
  return {block.body.begin() + kAt, block.body.begin() + 20 + length};
}
std::uint32_t flags_of(const Block& block) {
  const auto length = load_be_at<std::uint32_t>(block.body.data() + 12);
  return load_be_at<std::uint32_t>(block.body.data() + 20 + (length + 3) / 4 * 4 + 4);
}

class LinkCaptureTest : public ::testing::Test {
 protected:
  std::unique_ptr<LinkCapture> start() {
    std::string message;
    auto file = CaptureFile::overwrite(name, message);
    EXPECT_TRUE(file.ok()) << message;
    if (!file) return nullptr;
    auto capture = LinkCapture::start(std::move(*file), "leaf0[3]", message);
    EXPECT_TRUE(capture.ok()) << message;
    return capture ? std::move(*capture) : nullptr;
  }
  static LinkCapture::Progress end(LinkCapture& capture) {
    capture.finish();
    EXPECT_TRUE(becomes_readable(capture.descriptor()));
    return capture.progress();
  }

  const Folder folder;
  const std::string name = folder.file("link.pcapng");
};

TEST_F(LinkCaptureTest, PacketsAreThoseOnTheWireWithTheirDirections) {
  const auto capture = start();
  ASSERT_TRUE(capture);
  capture->record({.unix_nanoseconds = 0x0102'0304'0506'0708, .direction = Direction::kOutbound},
                  packet());
  capture->record({.direction = Direction::kInbound}, packet());
  const auto progress = end(*capture);
  EXPECT_EQ(progress.packets, 2U);
  EXPECT_EQ(progress.missing, 0U);
  EXPECT_EQ(progress.error, 0);
  const auto blocks = blocks_of(name);
  ASSERT_EQ(blocks.size(), 5U);
  Octets whole = packet();
  for (const auto octet : hex("1b79")) whole.push_back(octet);
  EXPECT_EQ(frame_of(blocks[2]), whole);
  EXPECT_EQ(flags_of(blocks[2]), 2U);
  EXPECT_EQ(load_be_at<std::uint64_t>(blocks[2].body.data() + 4), 0x0102'0304'0506'0708U);
  EXPECT_EQ(frame_of(blocks[3]), whole);
  EXPECT_EQ(flags_of(blocks[3]), 1U);
  EXPECT_EQ(blocks[4].type, kStatisticsBlock);
  EXPECT_EQ(progress.octets, test::octets_of(name).size());
}

TEST_F(LinkCaptureTest, TheLaneIsInTheRouteHeaderAndUnderTheVcrc) {
  const auto capture = start();
  ASSERT_TRUE(capture);
  capture->record({.lane = wire::VirtualLane{7}}, packet());
  (void)end(*capture);
  Octets whole = packet_on_lane_7();
  for (const auto octet : hex("5ff9")) whole.push_back(octet);
  EXPECT_EQ(frame_of(blocks_of(name).at(2)), whole);
}

TEST_F(LinkCaptureTest, OneBitOfADamagedVcrcIsWrong) {
  const auto capture = start();
  ASSERT_TRUE(capture);
  capture->record({.has_bad_vcrc = true}, packet());
  (void)end(*capture);
  const Octets frame = frame_of(blocks_of(name).at(2));
  EXPECT_EQ(Octets(frame.end() - 2, frame.end()), hex("1a79"));
  constexpr std::size_t kFlagsAt = 20 + 9;
  const auto flags = blocks_of(name).at(2).body.at(kFlagsAt);
  EXPECT_NE(flags & std::byte{0x10}, std::byte{0}) << "tools show an error of reception";
}

TEST_F(LinkCaptureTest, WhatIsRecordedAfterTheEndIsNotInTheFile) {
  const auto capture = start();
  ASSERT_TRUE(capture);
  (void)end(*capture);
  capture->record({}, packet());
  EXPECT_EQ(capture->progress().packets, 0U);
  EXPECT_EQ(blocks_of(name).size(), 3U);
}

TEST_F(LinkCaptureTest, AFileThatIsFullEndsTheCaptureAndIsWholeUpToThere) {
  const auto capture = start();
  ASSERT_TRUE(capture);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const std::size_t size = test::octets_of(name).size();
  rlimit tight = before;
  tight.rlim_cur = size + 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  for (int count = 0; count < 10; ++count) capture->record({}, packet());
  const bool has_ended = becomes_readable(capture->descriptor());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(has_ended);
  EXPECT_EQ(capture->progress().error, EFBIG);
  EXPECT_EQ(capture->progress().packets, 0U) << "those that were not written do not count";
  EXPECT_EQ(test::octets_of(name).size(), size);
}

TEST_F(LinkCaptureTest, AReaderThatDoesNotReadStopsNothingAndPacketsAreMissing) {
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  const int reader = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  auto capture = start();
  ASSERT_TRUE(capture);
  const Octets large(4096);
  // Both buffers and the pipe are full after that.
  const std::size_t enough = 3 * LinkCapture::kRoomOctets / large.size();
  for (std::size_t count = 0; count < enough; ++count) capture->record({}, large);
  const auto progress = capture->progress();
  EXPECT_GT(progress.missing, 0U);
  EXPECT_EQ(progress.packets + progress.missing, enough);
  ::close(reader);  // the writer fails now
  EXPECT_TRUE(becomes_readable(capture->descriptor()));
  EXPECT_EQ(capture->progress().error, EPIPE);
}

TEST_F(LinkCaptureTest, TwoCapturesDoNotWriteToOneFile) {
  const auto capture = start();
  ASSERT_TRUE(capture);
  std::string message;
  EXPECT_FALSE(CaptureFile::overwrite(name, message).ok());
  EXPECT_THAT(message, ::testing::HasSubstr("another capture is being written to it"));
}

}  // namespace
}  // namespace verbatim::link
