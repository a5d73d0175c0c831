// SPDX-License-Identifier: Apache-2.0
// ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3), ibv_post_srq_recv(3),
// ibv_create_srq_ex(3).
#include <infiniband/verbs.h>

#include "abi/border.h"
#include "abi/verbs/handles.h"
#include "abi/verbs/operations.h"
#include "abi/verbs/work_request.h"
#include "base/uncancelled.h"

namespace verbatim::abi {

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  SrqHandle& handle = handle_of<SrqHandle>(srq);
  for (; wr != nullptr; wr = wr->next) {
    auto request = to_request(*wr);
    Status posted = request ? handle.object->post(*request) : Status(request.error());
    if (posted) continue;
    *bad_wr = wr;
    return as_errno_value(posted.error());
  }
  return 0;
}

ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex* attributes) {
  const Uncancelled uncancelled;
  const bool is_basic = (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 ||
                        attributes->srq_type == IBV_SRQT_BASIC;
  if (!is_basic) return as_null<ibv_srq>(Errc::kNotSupported);
  if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0) {
    return as_null<ibv_srq>(Errc::kInvalidArgument);
  }
  ibv_srq_init_attr classic{.srq_context = attributes->srq_context, .attr = attributes->attr};
  ibv_srq* srq = ibv_create_srq(attributes->pd, &classic);
  if (srq != nullptr) attributes->attr = classic.attr;
  return srq;
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  *number = static_cast<std::uint32_t>(handle_of<SrqHandle>(srq).object->number());
  return 0;
}

}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
  const Uncancelled uncancelled;
  PdHandle& owner = handle_of<PdHandle>(pd);
  if (!is_intact(owner)) return as_null<ibv_srq>(Errc::kNoSuchObject);
  auto handle = std::make_unique<SrqHandle>();
  auto object = device::SharedReceiveQueue::create(
      owner.owner->adapter, owner.object->id(),
      {.depth = attributes->attr.max_wr, .sge_limit = std::max(attributes->attr.max_sge, 1U)},
      &owner.owner->async, reinterpret_cast<std::uintptr_t>(handle.get()));
  if (!object) return as_null<ibv_srq>(object.error());
  handle->object = std::move(*object);
  handle->owner = &owner;
  attributes->attr.max_sge = handle->object->sge_limit();
  ibv_srq& srq = handle->srq;
  srq.context = pd->context;
  srq.srq_context = attributes->srq_context;
  srq.pd = pd;
  srq.handle = static_cast<std::uint32_t>(handle->object->number());
  pthread_mutex_init(&srq.mutex, nullptr);
  pthread_cond_init(&srq.cond, nullptr);
  ++owner.owner->objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->srq;
}

VB_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
  const Uncancelled uncancelled;
  SrqHandle& handle = handle_of<SrqHandle>(srq);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  if ((mask & ~IBV_SRQ_LIMIT) != 0)
    return as_errno_value((mask & IBV_SRQ_MAX_WR) != 0 ? EOPNOTSUPP : EINVAL);
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  return as_errno_value(handle.object->arm_limit(attributes->srq_limit));
}

VB_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
  const Uncancelled uncancelled;
  if (!is_intact(handle_of<SrqHandle>(srq))) return as_errno_value(ENOENT);
  device::SharedReceiveQueue& object = *handle_of<SrqHandle>(srq).object;
  attributes->max_wr = object.depth();
  attributes->max_sge = object.sge_limit();
  attributes->srq_limit = object.limit();
  return 0;
}

VB_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(srq)) return as_errno_value(EINVAL);
  SrqHandle& handle = handle_of<SrqHandle>(srq);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  if (handle.object->has_users()) return as_errno_value(EBUSY);
  ContextHandle& context = *handle.owner->owner;
  context.async.forget(reinterpret_cast<std::uintptr_t>(&handle));
  wait_for_acks(srq->mutex, srq->cond, srq->events_completed, handle.async_events);
  discard(&handle, context);
  return 0;
}

}  // extern "C"
