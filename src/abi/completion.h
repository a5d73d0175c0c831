// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "transport/work.h"

namespace verbatim::abi {

/// Shows a completion as the verbs do. Into its place, member by member: as a whole it would be
/// built elsewhere and read again in larger pieces than it was written in, which processors wait
/// for.
inline void show(const transport::Completion& completion, ibv_wc& wc) noexcept {
  wc.wr_id = completion.wr_id;
  wc.status = static_cast<ibv_wc_status>(completion.status);
  wc.opcode = static_cast<ibv_wc_opcode>(completion.opcode);
  wc.vendor_err = completion.vendor_error;
  wc.byte_len = completion.octets;
  wc.imm_data = completion.imm_or_key;  // shares its place with invalidated_rkey
  wc.qp_num = static_cast<std::uint32_t>(completion.qp);
  wc.src_qp = static_cast<std::uint32_t>(completion.source_qp);
  wc.wc_flags = static_cast<unsigned int>(completion.flags);
  wc.pkey_index = 0;
  wc.slid = 0;
  wc.sl = 0;
  wc.dlid_path_bits = 0;
}

}  // namespace verbatim::abi
