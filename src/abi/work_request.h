// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "abi/handles.h"
#include "device/limits.h"
#include "transport/work.h"

namespace verbatim::abi {

static_assert(sizeof(ibv_sge) == sizeof(memory::Sge) &&
              offsetof(ibv_sge, length) == offsetof(memory::Sge, octets) &&
              offsetof(ibv_sge, lkey) == offsetof(memory::Sge, lkey));

/// A scatter/gather list is the same octets on both sides of the border.
[[nodiscard]] inline std::span<const memory::Sge> to_list(const ibv_sge* list, int count) noexcept {
  return {reinterpret_cast<const memory::Sge*>(list), static_cast<std::size_t>(count)};
}

/// kInvalidArgument for a list of impossible length: what is behind it must not even be looked at.
[[nodiscard]] inline Status check_list(int count) noexcept {
  const bool is_possible = count >= 0 && static_cast<std::uint32_t>(count) <= device::kMaxSges;
  return is_possible ? Status(Ok{}) : Status(Errc::kInvalidArgument);
}

[[nodiscard]] inline Expected<transport::ReceiveRequest> to_request(
    const ibv_recv_wr& wr) noexcept {
  if (auto possible = check_list(wr.num_sge); !possible) return possible.error();
  return transport::ReceiveRequest{.wr_id = wr.wr_id, .list = to_list(wr.sg_list, wr.num_sge)};
}

/// kInvalidArgument for an opcode or address handle that makes no sense on this queue pair.
[[nodiscard]] Expected<transport::SendRequest> to_request(const QpHandle& qp,
                                                          const ibv_send_wr& wr) noexcept;

}  // namespace verbatim::abi
