// SPDX-License-Identifier: Apache-2.0
// Any octets as a packet: verify_icrc() reads nothing outside them, and accepts them once their
// last four octets are the right ICRC.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "wire/crc/icrc.h"
#include "wire/crc/vcrc.h"
#include "wire/headers/bth.h"
#include "wire/headers/ids.h"
#include "wire/headers/packet.h"

namespace {

using namespace verbatim::wire;

void check(const IcrcSeed& seed, std::vector<std::byte> packet, std::uint16_t identification) {
  const bool possible =
      packet.size() >= Bth::kSize + kIcrcSize && packet.size() <= kIcrcMaxTransportOctets;
  const auto as_it_came = verify_icrc(seed, packet);
  VB_ASSERT(possible || !as_it_came);
  if (!possible) return;

  const auto covered = std::span(packet).first(packet.size() - kIcrcSize);
  store_icrc(std::span(packet).last<kIcrcSize>(),
             icrc_over_headers(seed.start(packet.size(), identification), covered));
  const auto found = verify_icrc(seed, packet);
  VB_ASSERT(found == (seed.is_ipv4() ? identification : std::uint16_t{0}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> packet(input.begin(), input.end());
  const auto identification = static_cast<std::uint16_t>(size < 8 ? 0 : data[2] << 8 | data[7]);

  Gid ipv4;
  ipv4.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  Gid ipv6;
  ipv6.octets = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1};
  check(IcrcSeed::roce_v2(ipv4, ipv4, 0xc000), packet, identification);
  check(IcrcSeed::roce_v2(ipv6, ipv6, 0xc000), packet, identification);
  check(IcrcSeed::roce_v1(ipv6, ipv6), packet, identification);

  (void)icrc_of_native(packet);  // must only not read outside the packet
  (void)vcrc_of(packet);
  return 0;
}
