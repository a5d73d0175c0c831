// SPDX-License-Identifier: Apache-2.0
// ibv_wr_post(3): requests put together call by call between ibv_wr_start and ibv_wr_complete.
#include "abi/verbs/wr_builder.h"

#include <cstring>

#include "abi/border.h"
#include "abi/verbs/operations.h"
#include "abi/verbs/work_request.h"

namespace verbatim::abi {
namespace {

using transport::SendOpcode;

constexpr std::uint64_t kUdOperations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUcOperations = kUdOperations | IBV_QP_EX_WITH_RDMA_WRITE |
                                        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                        IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
constexpr std::uint64_t kRcOperations = kUcOperations | IBV_QP_EX_WITH_RDMA_READ |
                                        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                        IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE;

WrDraft& draft_of(ibv_qp_ex* qp, SendOpcode opcode) {
  WrDraft& draft = handle_of<QpHandle>(qp).drafts.emplace_back();
  draft.request.opcode = opcode;
  draft.request.wr_id = qp->wr_id;
  draft.request.flags = transport::SendFlags(static_cast<std::uint8_t>(qp->wr_flags & 0xf));
  return draft;
}

WrDraft& current(ibv_qp_ex* qp) { return handle_of<QpHandle>(qp).drafts.back(); }

void aim(WrDraft& draft, std::uint32_t rkey, std::uint64_t address) noexcept {
  draft.request.rkey = wire::MemoryKey{rkey};
  draft.request.remote_address = address;
}

void append_inline(WrDraft& draft, const void* data, std::size_t octets) {
  const auto* from = static_cast<const std::byte*>(data);
  draft.inline_data.insert(draft.inline_data.end(), from, from + octets);
}

void mark_inline(WrDraft& draft) noexcept {
  draft.request.flags = draft.request.flags | transport::SendFlags::kInline;
}

/// Posts all of them or none: the queue must have room for the last before it gets the first.
int complete(ibv_qp_ex* qp) {
  QpHandle& handle = handle_of<QpHandle>(qp);
  int result = 0;
  {
    Posting posting(*handle.object, Posting::Of::kSends);
    if (!posting.has_room_for(static_cast<std::uint32_t>(handle.drafts.size()))) result = ENOMEM;
    for (WrDraft& draft : handle.drafts) {
      if (result != 0) break;
      const memory::Sge inline_sge{
          .address = reinterpret_cast<std::uintptr_t>(draft.inline_data.data()),
          .octets = static_cast<std::uint32_t>(draft.inline_data.size()),
          .lkey = {}};
      const bool is_inline = has(draft.request.flags, transport::SendFlags::kInline);
      draft.request.list = is_inline ? std::span(&inline_sge, 1) : std::span(draft.list);
      auto posted = posting.send(draft.request);
      if (!posted) result = to_errno(posted.error());
      if (posted && draft.window != nullptr) {
        draft.window->rkey = static_cast<std::uint32_t>(draft.request.bind.new_key);
      }
    }
  }
  handle.drafts.clear();
  handle.draft_mutex.unlock();
  return as_errno_value(result);
}

void fill_operations(ibv_qp_ex& qp) noexcept {
  qp.wr_send = [](ibv_qp_ex* ex) { draft_of(ex, SendOpcode::kSend); };
  qp.wr_send_imm = [](ibv_qp_ex* ex, __be32 immediate) {
    draft_of(ex, SendOpcode::kSendImm).request.immediate = wire::Immediate{immediate};
  };
  qp.wr_send_inv = [](ibv_qp_ex* ex, uint32_t key) {
    draft_of(ex, SendOpcode::kSendInvalidate).request.invalidate_key = wire::MemoryKey{key};
  };
  qp.wr_rdma_write = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
    aim(draft_of(ex, SendOpcode::kWrite), rkey, address);
  };
  qp.wr_rdma_write_imm = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, __be32 immediate) {
    WrDraft& draft = draft_of(ex, SendOpcode::kWriteImm);
    aim(draft, rkey, address);
    draft.request.immediate = wire::Immediate{immediate};
  };
  qp.wr_rdma_read = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
    aim(draft_of(ex, SendOpcode::kRead), rkey, address);
  };
  qp.wr_atomic_cmp_swp = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t compare,
                            uint64_t swap) {
    WrDraft& draft = draft_of(ex, SendOpcode::kCompareSwap);
    aim(draft, rkey, address);
    draft.request.compare_or_add = compare;
    draft.request.swap = swap;
  };
  qp.wr_atomic_fetch_add = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t add) {
    WrDraft& draft = draft_of(ex, SendOpcode::kFetchAdd);
    aim(draft, rkey, address);
    draft.request.compare_or_add = add;
  };
  qp.wr_atomic_write = [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, const void* value) {
    WrDraft& draft = draft_of(ex, SendOpcode::kAtomicWrite);
    aim(draft, rkey, address);
    append_inline(draft, value, 8);
    mark_inline(draft);
  };
  qp.wr_local_inv = [](ibv_qp_ex* ex, uint32_t key) {
    draft_of(ex, SendOpcode::kLocalInvalidate).request.invalidate_key = wire::MemoryKey{key};
  };
  qp.wr_bind_mw = [](ibv_qp_ex* ex, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
    WrDraft& draft = draft_of(ex, SendOpcode::kBindWindow);
    draft.window = mw;
    draft.request.bind = {.window_key = wire::MemoryKey{mw->rkey},
                          .new_key = type2_key(*mw, rkey),
                          .region_key = wire::MemoryKey{info->mr != nullptr ? info->mr->lkey : 0},
                          .address = info->addr,
                          .octets = info->length,
                          .access = window_access(*info)};
  };
}

void fill_setters(ibv_qp_ex& qp) noexcept {
  qp.wr_set_ud_addr = [](ibv_qp_ex* ex, ibv_ah* ah, uint32_t remote_qp, uint32_t qkey) {
    transport::SendRequest& request = current(ex).request;
    const AhHandle& address = handle_of<AhHandle>(ah);
    request.is_foreign_path = address.owner != handle_of<QpHandle>(ex).owner;
    request.path = &address.object->path();
    request.remote_qp = wire::QpNumber{remote_qp};
    request.remote_qkey = wire::QKey{qkey};
  };
  qp.wr_set_sge = [](ibv_qp_ex* ex, uint32_t lkey, uint64_t address, uint32_t octets) {
    current(ex).list = {{.address = address, .octets = octets, .lkey = wire::MemoryKey{lkey}}};
  };
  qp.wr_set_sge_list = [](ibv_qp_ex* ex, size_t count, const ibv_sge* list) {
    const auto elements = to_list(list, static_cast<int>(count));
    current(ex).list.assign(elements.begin(), elements.end());
  };
  qp.wr_set_inline_data = [](ibv_qp_ex* ex, void* data, size_t octets) {
    mark_inline(current(ex));
    append_inline(current(ex), data, octets);
  };
  qp.wr_set_inline_data_list = [](ibv_qp_ex* ex, size_t count, const ibv_data_buf* buffers) {
    mark_inline(current(ex));
    for (size_t i = 0; i < count; ++i) {
      append_inline(current(ex), buffers[i].addr, buffers[i].length);
    }
  };
}

}  // namespace

bool are_operations_known(ibv_qp_type type, std::uint64_t flags) noexcept {
  switch (type) {
    case IBV_QPT_RC:
      return (flags & ~kRcOperations) == 0;
    case IBV_QPT_UC:
      return (flags & ~kUcOperations) == 0;
    case IBV_QPT_UD:
      return (flags & ~kUdOperations) == 0;
    default:
      return false;
  }
}

void fill_builders(QpHandle& handle) noexcept {
  handle.is_extended = true;
  ibv_qp_ex& qp = handle.qp;
  fill_operations(qp);
  fill_setters(qp);
  qp.wr_start = [](ibv_qp_ex* ex) {
    QpHandle& owner = handle_of<QpHandle>(ex);
    owner.draft_mutex.lock();
    owner.drafts.clear();
  };
  qp.wr_complete = complete;
  qp.wr_abort = [](ibv_qp_ex* ex) {
    QpHandle& owner = handle_of<QpHandle>(ex);
    owner.drafts.clear();
    owner.draft_mutex.unlock();
  };
}

}  // namespace verbatim::abi
