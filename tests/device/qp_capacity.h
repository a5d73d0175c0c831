// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace verbatim::testing {

/// The size of a queue pair for so many requests with one scatter/gather element each, and without
/// inline data.
inline ibv_qp_cap qp_capacity(std::uint32_t sends, std::uint32_t receives) {
  return {.max_send_wr = sends,
          .max_recv_wr = receives,
          .max_send_sge = 1,
          .max_recv_sge = 1,
          .max_inline_data = 0};
}

}  // namespace verbatim::testing
