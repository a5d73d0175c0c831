// SPDX-License-Identifier: Apache-2.0
// Any octets as input of a native link: a packet, a flow-control packet, or neither.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "wire/crc/icrc.h"
#include "wire/headers/flow_control.h"
#include "wire/headers/native_packet.h"
#include "wire/print/print.h"

namespace {

using namespace verbatim::wire;

void check(const NativePacketView& packet, std::span<const std::byte> octets) {
  const std::size_t routes = Lrh::kSize + (packet.grh() ? Grh::kSize : 0);
  VB_ASSERT(routes + packet.transport().size() + kVcrcSize == octets.size());
  VB_ASSERT(packet.covered_by_vcrc().size() == packet.covered_by_icrc().size() + kIcrcSize);
  (void)icrc_of_native(packet.covered_by_icrc());  // must only not read outside the packet
  std::array<char, kPrintedPacketMax + 1> line;
  VB_ASSERT(print(packet, line).size() <= kPrintedPacketMax);
}

void check(const FlowControlView& packet, std::span<const std::byte> octets) {
  std::array<std::byte, FlowControl::kSize> again{};
  packet.value().emit(again);
  VB_ASSERT(std::equal(again.begin(), again.end(), octets.begin(), octets.end()));
}

/// The first four octets as a link packet whose CRC is right.
void check_link_packet(std::span<const std::byte> octets) {
  if (octets.size() < 4) return;
  std::array<std::byte, FlowControl::kSize> link{};
  std::copy_n(octets.begin(), 4, link.begin());
  const auto crc = vcrc_of(std::span(link).first<4>());
  std::copy(crc.begin(), crc.end(), link.begin() + 4);
  const auto packet = FlowControlView::parse(link);
  VB_ASSERT(packet.ok());
  check(*packet, link);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = std::as_bytes(std::span(data, size));
  if (const auto packet = NativePacketView::parse(octets)) check(*packet, octets);
  if (const auto packet = FlowControlView::parse(octets)) check(*packet, octets);
  check_link_packet(octets);
  return 0;
}
