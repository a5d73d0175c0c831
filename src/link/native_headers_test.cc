// SPDX-License-Identifier: Apache-2.0
#include "link/native_headers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "wire/headers/test_octets.h"

namespace verbatim::link {
namespace {

using wire::test::hex;
using wire::test::Octets;

Octets headers_of(const Outgoing& to, std::size_t transport_octets) {
  std::array<std::byte, kNativeHeadersMax> room;
  room.fill(std::byte{0xee});
  const std::size_t octets = write_native_headers(to, transport_octets, room);
  const bool is_rest_untouched =
      std::all_of(room.begin() + static_cast<std::ptrdiff_t>(octets), room.end(),
                  [](std::byte octet) { return octet == std::byte{0xee}; });
  EXPECT_TRUE(is_rest_untouched);
  return {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(octets)};
}

const Outgoing kLocal{.local = {.source = wire::Lid{0x0102},
                                .destination = wire::Lid{0x0304},
                                .level = wire::ServiceLevel{5}}};

TEST(NativeHeaders, APacketWithoutGidsHasALocalRouteHeader) {
  // 8 octets of the header and 20 of the transport are 7 words.
  EXPECT_EQ(headers_of(kLocal, 20), hex("00 52 0304 0007 0102"));
}

TEST(NativeHeaders, APacketWithGidsHasAGlobalRouteHeaderToo) {
  Outgoing to = kLocal;
  to.source.octets[15] = 1;
  to.destination.octets[0] = 0xfe;
  to.traffic_class = 0x23;
  to.flow_label = 0x45678;
  to.hop_limit = 9;
  EXPECT_EQ(headers_of(to, 4116),
            hex("00 53 0304 0411 0102 62345678 1014 1b 09 "
                "00000000000000000000000000000001 fe000000000000000000000000000000"));
}

}  // namespace
}  // namespace verbatim::link
