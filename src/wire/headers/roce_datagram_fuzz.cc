// SPDX-License-Identifier: Apache-2.0
// Any octets as an IP datagram: it is refused, or its envelope is written and read again unchanged.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/headers/ethernet.h"
#include "wire/headers/roce_datagram.h"
#include "wire/print/print.h"

namespace {

using namespace verbatim::wire;

void check(const RoceDatagram& found, std::span<const std::byte> datagram) {
  VB_ASSERT(found.envelope.octet_count() + found.transport.size() <= datagram.size());
  std::array<char, kPrintedPacketMax + 1> line;
  VB_ASSERT(print(found, line).size() <= kPrintedPacketMax);

  std::vector<std::byte> again(found.envelope.octet_count());
  VB_ASSERT(found.envelope.emit(again, found.transport.size()) == again.size());
  again.insert(again.end(), found.transport.begin(), found.transport.end());
  const auto parsed = RoceDatagram::parse(again);
  VB_ASSERT(parsed.ok() && parsed->envelope == found.envelope);
  VB_ASSERT(parsed->transport.size() == found.transport.size());
}

void check(std::span<const std::byte> octets) {
  const auto found = RoceDatagram::parse(octets);
  if (found) check(*found, octets);
}

/// The header checksum would stop nearly every mutation of an IPv4 header: make it right.
void check_with_right_checksum(std::span<const std::byte> octets) {
  if (octets.size() < Ipv4::kSize) return;
  std::vector<std::byte> repaired(octets.begin(), octets.end());
  const auto header = std::span(repaired).first<Ipv4::kSize>();
  verbatim::store_be<std::uint16_t, 10>(header, 0);
  verbatim::store_be<std::uint16_t, 10>(header, InternetChecksum().add(header).finish());
  check(repaired);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = std::as_bytes(std::span(data, size));
  check(octets);
  check_with_right_checksum(octets);
  if (const auto frame = EthernetView::parse(octets)) {
    VB_ASSERT(frame->payload().size() + Ethernet::kSize == octets.size());
  }
  return 0;
}
