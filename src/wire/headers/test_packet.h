// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wire/headers/packet.h"

namespace verbatim::wire::test {

/// The headers of a packet that arrived, as values that can be emitted. Nothing but tests and
/// fuzzers includes this.
inline PacketHeaders headers_of(const PacketView& packet) {
  const OpcodeInfo& info = packet.info();
  PacketHeaders headers;
  headers.bth = packet.bth().value();
  if (info.has(OpcodeInfo::kDeth)) headers.deth = packet.deth();
  if (info.has(OpcodeInfo::kXrcEth)) headers.xrceth = packet.xrceth();
  if (info.has(OpcodeInfo::kFeth)) headers.feth = packet.feth();
  if (info.has(OpcodeInfo::kReth)) headers.reth = packet.reth();
  if (info.has(OpcodeInfo::kAtomicEth)) headers.atomic_eth = packet.atomic_eth();
  if (info.has(OpcodeInfo::kAeth)) headers.aeth = packet.aeth();
  if (info.has(OpcodeInfo::kAtomicAckEth)) headers.atomic_ack_eth = packet.atomic_ack_eth();
  if (info.has(OpcodeInfo::kImmDt)) headers.imm_dt = packet.imm_dt();
  if (info.has(OpcodeInfo::kIeth)) headers.ieth = packet.ieth();
  return headers;
}

}  // namespace verbatim::wire::test
