// SPDX-License-Identifier: Apache-2.0
#include "wire/capture/pcap.h"

#include <gtest/gtest.h>

#include <array>

#include "wire/headers/test_octets.h"

namespace verbatim::wire {
namespace {

using test::hex;
using test::Octets;

/// The octets that `write` puts into a large buffer.
template <typename Write>
Octets written(Write&& write) {
  Octets buffer(4096, std::byte{0xff});
  const std::size_t size = write(std::span<std::byte>(buffer));
  buffer.resize(size);
  return buffer;
}

const Octets kHead = hex("010203");
const Octets kTail = hex("0405");
const std::array<std::span<const std::byte>, 2> kPieces = {kHead, kTail};

CapturedFrame frame() { return {.unix_nanoseconds = 0x0123'4567'89ab'cdef, .pieces = kPieces}; }

TEST(Pcap, FileHeaderIsAsTheFormatSays) {
  const auto octets = written([](auto to) { return write_pcap_file_header(to); });
  EXPECT_EQ(octets, hex("a1b23c4d 0002 0004 00000000 00000000 00040000 00000001"));
  EXPECT_EQ(octets.size(), kPcapFileHeaderOctets);
}

TEST(Pcap, RecordJoinsThePieces) {
  // 0x0123456789abcdef ns are 81,985,529 s and 216,486,895 ns.
  EXPECT_EQ(written([](auto to) { return write_pcap_record(to, frame()); }),
            hex("04e2fff9 0ce753ef 00000005 00000005 0102030405"));
}

TEST(Pcapng, SectionIsAsTheFormatSays) {
  EXPECT_EQ(written([](auto to) { return write_pcapng_section(to, "verb"); }),
            hex("0a0d0d0a 00000028 1a2b3c4d 0001 0000 ffffffffffffffff"
                "0004 0004 76657262 0000 0000 00000028"));
  EXPECT_EQ(written([](auto to) { return write_pcapng_section(to, ""); }),
            hex("0a0d0d0a 00000020 1a2b3c4d 0001 0000 ffffffffffffffff 00000000 00000020"));
}

TEST(Pcapng, InterfaceCountsNanoseconds) {
  EXPECT_EQ(written([](auto to) { return write_pcapng_interface(to, "vb0"); }),
            hex("00000001 00000028 0001 0000 00040000 0002 0003 76623000 0009 0001 09000000"
                "00000000 00000028"));
}

TEST(Pcapng, InterfaceSaysWhatItsFramesAre) {
  EXPECT_EQ(
      written([](auto to) { return write_pcapng_interface(to, "vb0", CaptureLinkType::kErf); }),
      hex("00000001 00000028 00c5 0000 00040000 0002 0003 76623000 0009 0001 09000000"
          "00000000 00000028"));
}

TEST(Pcapng, StatisticsCountWhatIsThereAndWhatIsMissing) {
  const CaptureStatistics statistics{.unix_nanoseconds = 0x0123'4567'89ab'cdef,
                                     .interface_index = 2,
                                     .received = 0x1'0000'0003,
                                     .dropped = 3};
  EXPECT_EQ(written([&](auto to) { return write_pcapng_statistics(to, statistics); }),
            hex("00000005 00000034 00000002 01234567 89abcdef 0004 0008 0000000100000003"
                "0005 0008 0000000000000003 00000000 00000034"));
}

TEST(Pcapng, TheFirstPieceOfAFrameIsWhereItIsSaidToBe) {
  const auto octets = written([](auto to) { return write_pcapng_frame(to, frame()); });
  EXPECT_EQ(Octets(octets.begin() + kPcapngFrameAt, octets.begin() + kPcapngFrameAt + 5),
            hex("0102030405"));
}

TEST(Pcapng, FrameIsPaddedToAWord) {
  EXPECT_EQ(written([](auto to) { return write_pcapng_frame(to, frame()); }),
            hex("00000006 0000002c 00000000 01234567 89abcdef 00000005 00000005 0102030405000000"
                "00000000 0000002c"));
}

TEST(Pcapng, FrameHasDirectionInterfaceAndComment) {
  auto told = frame();
  told.direction = CapturedFrame::Direction::kOutbound;
  told.interface_index = 7;
  told.comment = "lost";
  EXPECT_EQ(written([&](auto to) { return write_pcapng_frame(to, told); }),
            hex("00000006 0000003c 00000007 01234567 89abcdef 00000005 00000005 0102030405000000"
                "0002 0004 00000002 0001 0004 6c6f7374 00000000 0000003c"));
}

TEST(Pcap, EveryBufferThatIsTooSmallGetsNothing) {
  const auto check = [](auto write) {
    const std::size_t needed = written(write).size();
    ASSERT_GT(needed, 0U);
    for (std::size_t size = 0; size < needed; ++size) {
      Octets small(size);
      EXPECT_EQ(write(std::span<std::byte>(small)), 0U);
    }
    Octets exact(needed);
    EXPECT_EQ(write(std::span<std::byte>(exact)), needed);
  };
  check([](auto to) { return write_pcap_file_header(to); });
  check([](auto to) { return write_pcap_record(to, frame()); });
  check([](auto to) { return write_pcapng_section(to, "verbatim"); });
  check([](auto to) { return write_pcapng_interface(to, "vb0"); });
  check([](auto to) { return write_pcapng_statistics(to, {.received = 1}); });
  check([](auto to) { return write_pcapng_frame(to, frame()); });
}

TEST(Pcap, RefusesAFrameLongerThanTheLimit) {
  const Octets giant(kCaptureSnapOctets + 1);
  const std::array<std::span<const std::byte>, 1> pieces = {giant};
  Octets buffer(kCaptureSnapOctets + 100);
  EXPECT_EQ(write_pcap_record(buffer, {.pieces = pieces}), 0U);
  EXPECT_EQ(write_pcapng_frame(buffer, {.pieces = pieces}), 0U);
}

}  // namespace
}  // namespace verbatim::wire
