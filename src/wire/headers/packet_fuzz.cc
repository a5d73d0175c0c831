// SPDX-License-Identifier: Apache-2.0
// Any octets as a transport packet: the packet is refused, or it is parsed, printed, and emitted
// again from its values with a right ICRC.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/headers/packet.h"
#include "wire/headers/packet_builder.h"
#include "wire/headers/test_packet.h"
#include "wire/print/print.h"

namespace {

using namespace verbatim::wire;

void check_line(std::span<const std::byte> octets) {
  std::array<char, kPrintedPacketMax + 1> line;
  const auto text = print_transport(octets, line);
  VB_ASSERT(!text.empty() && text.size() <= kPrintedPacketMax);
}

/// The packet from values: the same length, the same values, and an ICRC that holds.
void check_rebuilt(const PacketView& packet) {
  const IcrcSeed seed = IcrcSeed::roce_v2(Gid{}, Gid{}, 0xc000);
  PacketHeaders headers = test::headers_of(packet);
  std::vector<std::byte> frame(PacketBuilder::octets_for(headers, packet.payload().size()));
  VB_ASSERT(frame.size() == packet.octets().size());
  PacketBuilder builder(frame, headers, packet.payload().size(), {.seed = &seed});
  builder.append(packet.payload());
  VB_ASSERT(builder.finish() == frame.size());
  VB_ASSERT(verify_icrc(seed, frame) == 0);

  const auto again = PacketView::parse(frame);
  VB_ASSERT(again.ok());
  VB_ASSERT(std::ranges::equal(again->payload(), packet.payload()));
  std::vector<std::byte> emitted(headers.octet_count());
  test::headers_of(*again).emit(emitted);
  VB_ASSERT(std::ranges::equal(emitted, std::span(frame).first(emitted.size())));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = std::as_bytes(std::span(data, size));
  if (octets.size() > kIcrcMaxTransportOctets) return 0;
  check_line(octets);
  const auto packet = PacketView::parse(octets);
  if (packet) check_rebuilt(*packet);
  return 0;
}
