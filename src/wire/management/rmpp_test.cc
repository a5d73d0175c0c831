// SPDX-License-Identifier: Apache-2.0
#include "wire/management/rmpp.h"

#include <gtest/gtest.h>

#include "wire/headers/test_octets.h"
#include "wire/management/sa_header.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kSize = Mad::kSize;

/// A datagram of ones in which only these octets are written.
test::Octets datagram_with(std::size_t at, std::string_view octets) {
  test::Octets datagram(kSize, std::byte{0xff});
  const auto written = test::hex(octets);
  std::ranges::copy(written, datagram.begin() + static_cast<std::ptrdiff_t>(at));
  return datagram;
}
template <typename Header>
test::Octets emitted_into_ones(const Header& header) {
  test::Octets datagram(kSize, std::byte{0xff});
  header.emit(std::span<std::byte, kSize>(datagram));
  return datagram;
}

TEST(Rmpp, ASegmentIsWrittenAndReadAsTheFigureShows) {
  const Rmpp rmpp{.is_first = true, .segment = 0x01020304, .extent = 0x05060708};
  const auto octets = datagram_with(24, "01 01 fb 00 01020304 05060708");
  EXPECT_EQ(emitted_into_ones(rmpp), octets);
  EXPECT_EQ(RmppView(test::first<kSize>(octets)).value(), rmpp);
}

TEST(Rmpp, AnEndIsWrittenAndReadAsTheFigureShows) {
  const Rmpp rmpp{.type = RmppType::kAbort,
                  .is_active = false,
                  .is_last = true,
                  .response_time = 3,
                  .status = RmppStatus::kTooManyRetries};
  const auto octets = datagram_with(24, "01 04 1c 7e 00000000 00000000");
  EXPECT_EQ(emitted_into_ones(rmpp), octets);
  EXPECT_EQ(RmppView(test::first<kSize>(octets)).value(), rmpp);
}

TEST(Rmpp, AnyOctetsAreSomeValueThatIsWrittenAgain) {
  Prng prng(1);
  for (int i = 0; i < 1000; ++i) {
    auto octets = test::random_octets(prng, kSize);
    octets[24] = std::byte{Rmpp::kVersion};
    auto again = octets;
    RmppView(test::first<kSize>(octets)).value().emit(std::span<std::byte, kSize>(again));
    EXPECT_EQ(again, octets);
  }
}

TEST(Rmpp, TheHeadersOfAClassEndWhereItsDataStart) {
  struct Case {
    unsigned mgmt_class;
    std::size_t octets;
  };
  constexpr Case kCases[] = {{0x01, 24}, {0x81, 24}, {0x03, 56}, {0x04, 24}, {0x05, 24},
                             {0x06, 64}, {0x07, 24}, {0x09, 24}, {0x0a, 24}, {0x0f, 24},
                             {0x10, 64}, {0x11, 24}, {0x12, 64}, {0x13, 24}, {0x21, 24},
                             {0x2f, 24}, {0x30, 40}, {0x32, 40}, {0x4f, 40}, {0x50, 24}};
  for (const Case& expected : kCases) {
    SCOPED_TRACE(expected.mgmt_class);
    const auto mgmt_class = MgmtClass{static_cast<std::uint8_t>(expected.mgmt_class)};
    EXPECT_EQ(header_octets_of(mgmt_class), expected.octets);
    EXPECT_EQ(has_rmpp(mgmt_class), expected.octets != 24);
    EXPECT_EQ(has_oui(mgmt_class), expected.octets == 40);
  }
}

TEST(SaHeader, IsWrittenAndReadAsTheFigureShows) {
  const SaHeader header{
      .sm_key = 0x0102030405060708, .record_words = 0x1112, .component_mask = 0x2122232425262728};
  const auto octets = datagram_with(36, "0102030405060708 1112 0000 2122232425262728");
  EXPECT_EQ(emitted_into_ones(header), octets);
  EXPECT_EQ(SaHeader::from(test::first<kSize>(octets)), header);
}

}  // namespace
}  // namespace verbatim::wire
