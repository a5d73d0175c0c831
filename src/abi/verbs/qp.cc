// SPDX-License-Identifier: Apache-2.0
// ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_post_send(3), ibv_post_recv(3).
#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "abi/border.h"
#include "abi/verbs/address.h"
#include "abi/verbs/handles.h"
#include "abi/verbs/operations.h"
#include "abi/verbs/work_request.h"
#include "abi/verbs/wr_builder.h"
#include "base/uncancelled.h"
#include "device/limits.h"
#include "wire/headers/flow_entropy.h"

namespace verbatim::abi {

Expected<transport::SendRequest> to_request(const QpHandle& qp, const ibv_send_wr& wr) noexcept {
  if (auto possible = check_list(wr.num_sge); !possible) return possible.error();
  transport::SendRequest request;
  request.wr_id = wr.wr_id;
  request.opcode = transport::SendOpcode(octet_of(wr.opcode));
  request.flags = transport::SendFlags(static_cast<std::uint8_t>(wr.send_flags & 0xf));
  request.list = to_list(wr.sg_list, wr.num_sge);
  switch (octet_of(wr.opcode)) {
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      request.remote_address = wr.wr.rdma.remote_addr;
      request.rkey = wire::MemoryKey{wr.wr.rdma.rkey};
      request.immediate = wire::Immediate{wr.imm_data};
      break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      request.remote_address = wr.wr.atomic.remote_addr;
      request.rkey = wire::MemoryKey{wr.wr.atomic.rkey};
      request.compare_or_add = wr.wr.atomic.compare_add;
      request.swap = wr.wr.atomic.swap;
      break;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      request.immediate = wire::Immediate{wr.imm_data};
      break;
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_LOCAL_INV:
      request.invalidate_key = wire::MemoryKey{wr.invalidate_rkey};
      break;
    case IBV_WR_BIND_MW:
      if (wr.bind_mw.mw == nullptr) return Errc::kInvalidArgument;
      request.bind = {.window_key = wire::MemoryKey{wr.bind_mw.mw->rkey},
                      .new_key = type2_key(*wr.bind_mw.mw, wr.bind_mw.rkey),
                      .region_key = wire::MemoryKey{wr.bind_mw.bind_info.mr != nullptr
                                                        ? wr.bind_mw.bind_info.mr->lkey
                                                        : 0},
                      .address = wr.bind_mw.bind_info.addr,
                      .octets = wr.bind_mw.bind_info.length,
                      .access = window_access(wr.bind_mw.bind_info)};
      break;
    case IBV_WR_ATOMIC_WRITE:
      request.remote_address = wr.wr.rdma.remote_addr;
      request.rkey = wire::MemoryKey{wr.wr.rdma.rkey};
      break;
    default:
      return Errc::kInvalidArgument;
  }
  // Other operations do not exist for datagrams. Their fields share the place of the address
  // handle.
  const bool is_send = request.opcode == transport::SendOpcode::kSend ||
                       request.opcode == transport::SendOpcode::kSendImm;
  if (qp.qp.qp_base.qp_type == IBV_QPT_UD && is_send) {
    if (wr.wr.ud.ah == nullptr) return Errc::kInvalidArgument;
    const AhHandle& ah = handle_of<AhHandle>(wr.wr.ud.ah);
    request.is_foreign_path = ah.owner != qp.owner;
    request.path = &ah.object->path();
    request.remote_qp = wire::QpNumber{wr.wr.ud.remote_qpn};
    request.remote_qkey = wire::QKey{wr.wr.ud.remote_qkey};
  }
  return request;
}

namespace {

/// As with other adapters, a window has the key of its newest bind from the moment of posting:
/// programs read it there and do not wait for the completion.
void note_bind(const ibv_send_wr& wr, const transport::SendRequest& request) noexcept {
  if (request.opcode != transport::SendOpcode::kBindWindow) [[likely]]
    return;
  wr.bind_mw.mw->rkey = static_cast<std::uint32_t>(request.bind.new_key);
}

}  // namespace

// Flattened: everything that the call does is inlined (docs/decisions/0018).
[[gnu::flatten]] int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  QpHandle& handle = handle_of<QpHandle>(qp);
  Status posted = Ok{};
  {
    Posting posting(*handle.object, Posting::Of::kSends);
    ShortRequests at_once(wr);
    posting.send_short(at_once);
    for (wr = at_once.rest(); wr != nullptr && posted; wr = wr->next) {
      auto request = to_request(handle, *wr);
      posted = request ? posting.send(*request) : Status(request.error());
      if (posted) note_bind(*wr, *request);
      if (!posted) *bad_wr = wr;
    }
  }
  return as_errno_value(posted);  // errno is set last: the end of a posting makes system calls
}

[[gnu::flatten]] int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  Status posted = Ok{};
  {
    Posting posting(*handle_of<QpHandle>(qp).object, Posting::Of::kReceives);
    for (; wr != nullptr && posted; wr = wr->next) {
      auto request = to_request(*wr);
      posted = request ? posting.receive(*request) : Status(request.error());
      if (!posted) *bad_wr = wr;
    }
  }
  return as_errno_value(posted);
}

namespace {

Expected<transport::QpType> type_of(ibv_qp_type type) noexcept {
  switch (type) {
    case IBV_QPT_RC:
      return transport::QpType::kRc;
    case IBV_QPT_UC:
      return transport::QpType::kUc;
    case IBV_QPT_UD:
      return transport::QpType::kUd;
    default:
      return Errc::kNotSupported;
  }
}

QpHandle* create(ibv_pd* pd, ibv_qp_init_attr& init) {
  auto type = type_of(init.qp_type);
  if (!type) return as_null<QpHandle>(type.error());
  if (init.send_cq == nullptr || init.recv_cq == nullptr) {
    return as_null<QpHandle>(Errc::kInvalidArgument);
  }
  PdHandle& owner = handle_of<PdHandle>(pd);
  auto handle = std::make_unique<QpHandle>();
  if (handle == nullptr) return as_null<QpHandle>(Errc::kNoMemory);
  SrqHandle* shared = init.srq == nullptr ? nullptr : &handle_of<SrqHandle>(init.srq);
  // All objects must be of one context: those of another may belong to another adapter.
  const bool are_of_other_contexts = init.send_cq->context != pd->context ||
                                     init.recv_cq->context != pd->context ||
                                     (shared != nullptr && init.srq->context != pd->context);
  if (are_of_other_contexts) return as_null<QpHandle>(Errc::kInvalidArgument);
  const bool are_intact = is_intact(owner) && is_intact(handle_of<CqHandle>(init.send_cq)) &&
                          is_intact(handle_of<CqHandle>(init.recv_cq)) &&
                          (shared == nullptr || is_intact(*shared));
  if (!are_intact) return as_null<QpHandle>(Errc::kNoSuchObject);
  auto object = device::QueuePair::create(
      owner.owner->adapter, {.type = *type,
                             .domain = owner.object->id(),
                             .send_depth = init.cap.max_send_wr,
                             .receive_depth = shared != nullptr ? 0 : init.cap.max_recv_wr,
                             .send_sges = init.cap.max_send_sge,
                             .receive_sges = init.cap.max_recv_sge,
                             .inline_octets = init.cap.max_inline_data,
                             .signal_all = init.sq_sig_all != 0,
                             .send_cq = handle_of<CqHandle>(init.send_cq).object.get(),
                             .receive_cq = handle_of<CqHandle>(init.recv_cq).object.get(),
                             .shared = shared == nullptr ? nullptr : shared->object.get(),
                             .async = &owner.owner->async,
                             .user_tag = reinterpret_cast<std::uintptr_t>(handle.get())});
  if (!object) return as_null<QpHandle>(object.error());
  handle->object = std::move(*object);
  handle->owner = &owner;
  if (shared != nullptr) init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
  handle->init = init;
  ibv_qp& qp = *handle->classic();
  qp.context = pd->context;
  qp.qp_context = init.qp_context;
  qp.pd = pd;
  qp.send_cq = init.send_cq;
  qp.recv_cq = init.recv_cq;
  qp.srq = init.srq;
  qp.handle = qp.qp_num = static_cast<std::uint32_t>(handle->object->number());
  qp.state = IBV_QPS_RESET;
  qp.qp_type = init.qp_type;
  pthread_mutex_init(&qp.mutex, nullptr);
  pthread_cond_init(&qp.cond, nullptr);
  ++owner.owner->objects;
  LiveHandles::instance().add(handle.get());
  return handle.release();
}

/// The key at an index of the port's table; nothing when it has no valid key there.
std::optional<wire::PKey> partition_of(const QpHandle& handle, std::uint16_t index) {
  const device::PortInfo port = handle.owner->owner->adapter->port();
  if (index >= port.pkeys().size() || port.pkeys()[index] == wire::PKey{}) return std::nullopt;
  return port.pkeys()[index];
}

/// Whether a multicast group can have this LID. On Ethernet the LID is ignored (annex A16).
bool is_group_lid(const device::PortInfo& port, std::uint16_t lid) noexcept {
  const wire::Lid group{lid};
  return !port.fabric || (group >= wire::Lid::kFirstMulticast && group != wire::Lid::kPermissive);
}

transport::QpAttributes attributes_of(const ibv_qp_attr& attr) noexcept {
  transport::QpAttributes wanted;
  wanted.state = transport::QpState(octet_of(attr.qp_state));
  wanted.current_state = transport::QpState(octet_of(attr.cur_qp_state));
  wanted.access = memory::Access(attr.qp_access_flags);
  wanted.qkey = wire::QKey{attr.qkey};
  wanted.path_mtu = wire::PathMtu(octet_of(attr.path_mtu));
  wanted.timeout = attr.timeout;
  wanted.retry_count = attr.retry_cnt;
  wanted.rnr_retry = attr.rnr_retry;
  wanted.min_rnr_timer = attr.min_rnr_timer;
  wanted.max_read_atomic = attr.max_rd_atomic;
  wanted.max_dest_read_atomic = attr.max_dest_rd_atomic;
  wanted.sqd_notify = attr.en_sqd_async_notify != 0;
  wanted.receive_psn = wire::Psn(attr.rq_psn);
  wanted.send_psn = wire::Psn(attr.sq_psn);
  wanted.dest_qp = wire::QpNumber{attr.dest_qp_num};
  return wanted;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attributes) {
  const Uncancelled uncancelled;
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attributes->comp_mask & ~kKnown) != 0) return as_null<ibv_qp>(Errc::kNotSupported);
  if ((attributes->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    return as_null<ibv_qp>(Errc::kInvalidArgument);
  }
  const bool has_flags = (attributes->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
  if (has_flags && attributes->create_flags != 0) return as_null<ibv_qp>(Errc::kNotSupported);
  const bool extended = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended && !are_operations_known(attributes->qp_type, attributes->send_ops_flags)) {
    return as_null<ibv_qp>(Errc::kNotSupported);
  }
  // The classic struct is the beginning of the extended one.
  auto& classic = *reinterpret_cast<ibv_qp_init_attr*>(attributes);
  if (extended && (attributes->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
    // ibv_wr_atomic_write gets the eight octets themselves, not their address.
    classic.cap.max_inline_data = std::max<std::uint32_t>(classic.cap.max_inline_data, 8);
  }
  QpHandle* handle = create(attributes->pd, classic);
  if (handle == nullptr) return nullptr;
  if (extended) fill_builders(*handle);
  return handle->classic();
}

}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  const Uncancelled uncancelled;
  QpHandle* handle = create(pd, *init);
  return handle == nullptr ? nullptr : handle->classic();
}

VB_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  QpHandle& handle = handle_of<QpHandle>(qp);
  return handle.is_extended ? &handle.qp : nullptr;
}

VB_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const Uncancelled uncancelled;
  QpHandle& handle = handle_of<QpHandle>(qp);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  constexpr int kRefused = IBV_QP_ALT_PATH | IBV_QP_CAP | IBV_QP_RATE_LIMIT;
  if ((mask & kRefused) != 0) return as_errno_value((mask & IBV_QP_CAP) != 0 ? EOPNOTSUPP : EINVAL);
  if ((mask & IBV_QP_PORT) != 0 && attr->port_num != 1) return as_errno_value(EINVAL);
  transport::QpAttributes wanted = attributes_of(*attr);
  if ((mask & IBV_QP_PKEY_INDEX) != 0) {
    const auto key = partition_of(handle, attr->pkey_index);
    if (!key) return as_errno_value(EINVAL);
    wanted.pkey = *key;
    wanted.pkey_index = attr->pkey_index;
  }
  std::optional<device::Destination> to;
  if ((mask & IBV_QP_AV) != 0) {
    to = destination_of(attr->ah_attr);
    const auto remote = (mask & IBV_QP_DEST_QPN) != 0 ? wire::QpNumber{attr->dest_qp_num}
                                                      : handle.object->query().attributes.dest_qp;
    to->entropy = wire::source_port_of_connection(to->flow_label, handle.object->number(), remote);
  }
  auto modified = handle.object->modify(transport::QpMask(static_cast<std::uint32_t>(mask)), wanted,
                                        to ? &*to : nullptr);
  if (!modified) return as_errno_value(modified.error());
  const LockGuard lock(handle.given_mutex);
  if ((mask & IBV_QP_AV) != 0) handle.address = attr->ah_attr;
  if ((mask & IBV_QP_PORT) != 0) handle.port = attr->port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) handle.pkey_index = attr->pkey_index;
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}

VB_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  const Uncancelled uncancelled;
  QpHandle& handle = handle_of<QpHandle>(qp);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  const device::QueuePair::Present present = handle.object->query();
  const transport::QpAttributes& now = present.attributes;
  const LockGuard lock(handle.given_mutex);
  *attr = ibv_qp_attr{};
  attr->qp_state = attr->cur_qp_state = static_cast<ibv_qp_state>(now.state);
  attr->path_mtu = static_cast<ibv_mtu>(now.path_mtu);
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->qkey = static_cast<std::uint32_t>(now.qkey);
  attr->rq_psn = now.receive_psn.raw();
  attr->sq_psn = now.send_psn.raw();
  attr->dest_qp_num = static_cast<std::uint32_t>(now.dest_qp);
  attr->qp_access_flags = static_cast<unsigned int>(now.access);
  attr->cap = handle.init.cap;
  attr->ah_attr = handle.address;
  attr->pkey_index = handle.pkey_index;
  attr->sq_draining = present.is_draining ? 1 : 0;
  attr->max_rd_atomic = now.max_read_atomic;
  attr->max_dest_rd_atomic = now.max_dest_read_atomic;
  attr->min_rnr_timer = now.min_rnr_timer;
  attr->port_num = handle.port;
  attr->timeout = now.timeout;
  attr->retry_cnt = now.retry_count;
  attr->rnr_retry = now.rnr_retry;
  *init = handle.init;
  init->qp_context = qp->qp_context;
  qp->state = attr->qp_state;
  return 0;
}

VB_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }

VB_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(qp)) return as_errno_value(EINVAL);
  QpHandle& handle = handle_of<QpHandle>(qp);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  ContextHandle& context = *handle.owner->owner;
  if (context.adapter->groups().has_member(*handle.object)) return as_errno_value(EBUSY);
  handle.object.reset();
  context.async.forget(reinterpret_cast<std::uintptr_t>(&handle));
  wait_for_acks(qp->mutex, qp->cond, qp->events_completed, handle.async_events);
  discard(&handle, context);
  return 0;
}

VB_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  const Uncancelled uncancelled;
  verbatim::device::QueuePair& object = *handle_of<QpHandle>(qp).object;
  if (!is_group_lid(object.adapter().port(), lid)) return as_errno_value(EINVAL);
  return as_errno_value(
      object.adapter().groups().attach(object, std::bit_cast<wire::Gid>(gid->raw)));
}

VB_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
  const Uncancelled uncancelled;
  verbatim::device::QueuePair& object = *handle_of<QpHandle>(qp).object;
  if (!is_group_lid(object.adapter().port(), lid)) return as_errno_value(EINVAL);
  return as_errno_value(
      object.adapter().groups().detach(object, std::bit_cast<wire::Gid>(gid->raw)));
}

VB_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
  *ece = ibv_ece{};
  return 0;
}
VB_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece* ece) {
  return as_errno_value(ece->vendor_id == 0 ? 0 : EOPNOTSUPP);
}

}  // extern "C"
