// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/packet.h"

#include <algorithm>

namespace verbatim::wire {

void PacketHeaders::emit(std::span<std::byte> to) const noexcept {
  const OpcodeInfo& info = describe(bth.opcode);
  VB_ASSERT(info.known() && to.size() >= octet_count());
  bth.emit(to.first<Bth::kSize>());
  const auto put = [&](OpcodeInfo::Header which, const auto& header) {
    using Header = std::remove_cvref_t<decltype(header)>;
    if (!info.has(which)) return;
    header.emit(
        std::span<std::byte, Header::kSize>(to.data() + info.offset_of(which), Header::kSize));
  };
  if (info.headers == 0) return;
  put(OpcodeInfo::kDeth, deth);
  put(OpcodeInfo::kXrcEth, xrceth);
  put(OpcodeInfo::kFeth, feth);
  put(OpcodeInfo::kReth, reth);
  put(OpcodeInfo::kAtomicEth, atomic_eth);
  put(OpcodeInfo::kAeth, aeth);
  put(OpcodeInfo::kAtomicAckEth, atomic_ack_eth);
  put(OpcodeInfo::kImmDt, imm_dt);
  put(OpcodeInfo::kIeth, ieth);
  if (info.has(OpcodeInfo::kCnpReserved)) {
    std::fill_n(to.data() + info.offset_of(OpcodeInfo::kCnpReserved), kCnpReservedOctets,
                std::byte{0});
  }
}

}  // namespace verbatim::wire
