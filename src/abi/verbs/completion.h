// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "abi/verbs/handles.h"
#include "transport/queues/work.h"

namespace verbatim::abi {

[[nodiscard]] inline unsigned int verbs_flags_of(const transport::Completion& completion) noexcept {
  return static_cast<unsigned int>(completion.flags) &
         ~static_cast<unsigned int>(transport::WcFlags::kIpv4);
}
/// Of a native datagram the service level. Ethernet has none; for a datagram the field says which
/// headers came before the payload instead, UDP after IPv4 or UDP after IPv6: Mellanox's adapters
/// do so, and UCX expects it.
[[nodiscard]] inline std::uint8_t service_level_of(
    const transport::Completion& completion) noexcept {
  if (completion.source_qp == wire::QpNumber{}) return 0;
  const transport::DatagramOrigin origin = completion.origin();
  if (origin.source != wire::Lid::kReserved) return static_cast<std::uint8_t>(origin.level);
  constexpr std::uint8_t kUdp = 8;
  return has(completion.flags, transport::WcFlags::kIpv4) ? kUdp | 2 : kUdp | 1;
}

[[nodiscard]] inline std::uint16_t source_lid_of(const transport::Completion& completion) noexcept {
  return static_cast<std::uint16_t>(completion.origin().source);
}

/// Which of the LIDs of this port a native datagram came to. A port has more than one only if its
/// subnet manager has set an LMC.
[[nodiscard]] inline std::uint8_t path_bits_of(const transport::Completion& completion,
                                               const ContextHandle& context) noexcept {
  if (completion.source_qp == wire::QpNumber{}) return 0;
  const std::uint8_t bits = completion.origin().path_bits;
  return bits == 0 ? bits : bits & context.adapter->path_mask();
}

/// Writes a completion as the verbs have it, member by member and in place. A struct that is built
/// elsewhere and then copied is read in larger pieces than it was written in, and the processor
/// waits for that.
inline void show(const transport::Completion& completion, const ContextHandle& context,
                 ibv_wc& wc) noexcept {
  wc.wr_id = completion.wr_id;
  wc.status = static_cast<ibv_wc_status>(completion.status);
  wc.opcode = static_cast<ibv_wc_opcode>(completion.opcode);
  wc.vendor_err = completion.vendor_error();
  wc.byte_len = completion.octets;
  wc.imm_data = completion.imm_or_key;  // the same field as invalidated_rkey
  wc.qp_num = static_cast<std::uint32_t>(completion.qp);
  wc.src_qp = static_cast<std::uint32_t>(completion.source_qp);
  wc.wc_flags = verbs_flags_of(completion);
  wc.pkey_index = 0;
  wc.slid = source_lid_of(completion);
  wc.sl = service_level_of(completion);
  wc.dlid_path_bits = path_bits_of(completion, context);
}

}  // namespace verbatim::abi
