// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "abi/verbs/handles.h"
#include "device/limits.h"
#include "transport/queues/short_request.h"
#include "transport/queues/work.h"

namespace verbatim::abi {

static_assert(sizeof(ibv_sge) == sizeof(memory::Sge) &&
              offsetof(ibv_sge, length) == offsetof(memory::Sge, octets) &&
              offsetof(ibv_sge, lkey) == offsetof(memory::Sge, lkey));

/// Scatter/gather lists have the same layout on both sides of the border.
[[nodiscard]] inline std::span<const memory::Sge> to_list(const ibv_sge* list, int count) noexcept {
  return {reinterpret_cast<const memory::Sge*>(list), static_cast<std::size_t>(count)};
}

/// kInvalidArgument for a list of impossible length, which must not be read.
[[nodiscard]] inline Status check_list(int count) noexcept {
  const bool is_possible = count >= 0 && static_cast<std::uint32_t>(count) <= device::kMaxSges;
  return is_possible ? Status(Ok{}) : Status(Errc::kInvalidArgument);
}

[[nodiscard]] inline Expected<transport::ReceiveRequest> to_request(
    const ibv_recv_wr& wr) noexcept {
  if (auto possible = check_list(wr.num_sge); !possible) return possible.error();
  return transport::ReceiveRequest{.wr_id = wr.wr_id, .list = to_list(wr.sg_list, wr.num_sge)};
}

/// The simplest requests at the head of a list: SENDs, WRITEs and READs with one scatter/gather
/// element. direct::Requester::run_short() executes them at once.
class ShortRequests {
 public:
  explicit ShortRequests(ibv_send_wr* first) noexcept : at_(first) {}

  [[nodiscard, gnu::always_inline]] inline bool peek(
      transport::ShortRequest& request) const noexcept {
    const ibv_send_wr* wr = at_;
    if (wr == nullptr || wr->num_sge != 1) return false;
    switch (wr->opcode) {
      case IBV_WR_RDMA_WRITE:
        request.opcode = transport::SendOpcode::kWrite;
        break;
      case IBV_WR_SEND:
        request.opcode = transport::SendOpcode::kSend;
        break;
      case IBV_WR_RDMA_READ:
        request.opcode = transport::SendOpcode::kRead;
        break;
      default:
        return false;
    }
    request.wr_id = wr->wr_id;
    request.flags = transport::SendFlags(static_cast<std::uint8_t>(wr->send_flags & 0xf));
    request.remote_address = wr->wr.rdma.remote_addr;  // not used for a SEND
    request.rkey = wire::MemoryKey{wr->wr.rdma.rkey};
    request.piece = to_list(wr->sg_list, 1).front();
    return true;
  }
  void pop() noexcept { at_ = at_->next; }
  /// The first one that was not popped.
  [[nodiscard]] ibv_send_wr* rest() const noexcept { return at_; }

 private:
  ibv_send_wr* at_;
};

/// kInvalidArgument for an opcode or address handle that makes no sense on this queue pair.
[[nodiscard]] Expected<transport::SendRequest> to_request(const QpHandle& qp,
                                                          const ibv_send_wr& wr) noexcept;

}  // namespace verbatim::abi
