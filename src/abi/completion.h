// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "transport/work.h"

namespace verbatim::abi {

/// A completion as the verbs show it.
[[nodiscard]] inline ibv_wc to_wc(const transport::Completion& completion) noexcept {
  ibv_wc wc{};
  wc.wr_id = completion.wr_id;
  wc.status = static_cast<ibv_wc_status>(completion.status);
  wc.opcode = static_cast<ibv_wc_opcode>(completion.opcode);
  wc.vendor_err = completion.vendor_error;
  wc.byte_len = completion.octets;
  wc.imm_data = completion.imm_or_key;  // shares its place with invalidated_rkey
  wc.qp_num = static_cast<std::uint32_t>(completion.qp);
  wc.src_qp = static_cast<std::uint32_t>(completion.source_qp);
  wc.wc_flags = static_cast<unsigned int>(completion.flags);
  return wc;
}

}  // namespace verbatim::abi
