// SPDX-License-Identifier: Apache-2.0
// ibv_create_comp_channel(3), ibv_create_cq(3), ibv_poll_cq(3), ibv_get_cq_event(3),
// ibv_create_cq_ex(3).
#include <infiniband/verbs.h>

#include "abi/border.h"
#include "abi/verbs/completion.h"
#include "abi/verbs/handles.h"
#include "abi/verbs/operations.h"
#include "base/uncancelled.h"
#include "device/wall_clock.h"

namespace verbatim::abi {
namespace {

CqHandle& handle_of_ex(ibv_cq_ex* cq) noexcept { return handle_of<CqHandle>(cq); }

/// Makes the next completion the current one; ENOENT when there is none.
int advance(CqHandle& handle) noexcept {
  if (handle.object->poll({&handle.current, 1}) == 0) return ENOENT;
  handle.cq.status = static_cast<ibv_wc_status>(handle.current.status);
  handle.cq.wr_id = handle.current.wr_id;
  return 0;
}

/// From ibv_start_poll to ibv_end_poll one thread has the current completion to itself.
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) noexcept {
  if (attr != nullptr && attr->comp_mask != 0) return as_errno_value(EINVAL);
  CqHandle& handle = handle_of_ex(cq);
  if (!handle.is_single_threaded) handle.polling.lock();
  if (advance(handle) == 0) return 0;
  if (!handle.is_single_threaded) handle.polling.unlock();
  handle.object->rest_after_vain_poll();
  return ENOENT;
}

void end_poll(ibv_cq_ex* cq) noexcept {
  CqHandle& handle = handle_of_ex(cq);
  if (!handle.is_single_threaded) handle.polling.unlock();
  handle.object->share_after_poll();
}

void fill_polling(ibv_cq_ex& cq) noexcept {
  cq.start_poll = start_poll;
  cq.next_poll = [](ibv_cq_ex* ex) { return advance(handle_of_ex(ex)); };
  cq.end_poll = end_poll;
  cq.read_opcode = [](ibv_cq_ex* ex) {
    return static_cast<ibv_wc_opcode>(handle_of_ex(ex).current.opcode);
  };
  cq.read_vendor_err = [](ibv_cq_ex* ex) { return handle_of_ex(ex).current.vendor_error(); };
  cq.read_byte_len = [](ibv_cq_ex* ex) { return handle_of_ex(ex).current.octets; };
  cq.read_imm_data = [](ibv_cq_ex* ex) -> __be32 { return handle_of_ex(ex).current.imm_or_key; };
  cq.read_qp_num = [](ibv_cq_ex* ex) {
    return static_cast<std::uint32_t>(handle_of_ex(ex).current.qp);
  };
  cq.read_src_qp = [](ibv_cq_ex* ex) {
    return static_cast<std::uint32_t>(handle_of_ex(ex).current.source_qp);
  };
  cq.read_wc_flags = [](ibv_cq_ex* ex) { return verbs_flags_of(handle_of_ex(ex).current); };
  cq.read_slid = [](ibv_cq_ex* ex) -> std::uint32_t {
    return source_lid_of(handle_of_ex(ex).current);
  };
  cq.read_sl = [](ibv_cq_ex* ex) { return service_level_of(handle_of_ex(ex).current); };
  cq.read_dlid_path_bits = [](ibv_cq_ex* ex) {
    const CqHandle& handle = handle_of_ex(ex);
    return path_bits_of(handle.current, *handle.owner);
  };
  cq.read_completion_ts = [](ibv_cq_ex* ex) { return handle_of_ex(ex).current.timestamp; };
  cq.read_completion_wallclock_ns = [](ibv_cq_ex* ex) {
    return device::time_of_day_at(handle_of_ex(ex).current.timestamp);
  };
  cq.read_cvlan = [](ibv_cq_ex*) -> std::uint16_t { return 0; };
  cq.read_flow_tag = [](ibv_cq_ex*) -> std::uint32_t { return 0; };
}

CqHandle* create(ibv_context* context, std::uint32_t capacity, void* user_context,
                 ibv_comp_channel* channel, int vector) {
  ContextHandle& owner = handle_of(context);
  const bool is_of_another_context = channel != nullptr && channel->context != context;
  if (vector < 0 || vector >= context->num_comp_vectors || is_of_another_context) {
    return as_null<CqHandle>(Errc::kInvalidArgument);
  }
  auto handle = std::make_unique<CqHandle>();
  handle->owner = &owner;
  handle->channel = channel == nullptr ? nullptr : &handle_of<ChannelHandle>(channel);
  auto object = device::CompletionQueue::create(
      owner.adapter, capacity, handle->channel == nullptr ? nullptr : &handle->channel->pipe,
      &owner.async, reinterpret_cast<std::uintptr_t>(handle.get()));
  if (!object) return as_null<CqHandle>(object.error());
  handle->object = std::move(*object);
  ibv_cq& cq = *handle->classic();
  cq.context = context;
  cq.channel = channel;
  cq.cq_context = user_context;
  cq.cqe = static_cast<int>(capacity);
  pthread_mutex_init(&cq.mutex, nullptr);
  pthread_cond_init(&cq.cond, nullptr);
  if (channel != nullptr) {
    pthread_mutex_lock(&context->mutex);
    ++channel->refcnt;
    pthread_mutex_unlock(&context->mutex);
  }
  ++owner.objects;
  LiveHandles::instance().add(handle.get());
  return handle.release();
}

}  // namespace

namespace {

constexpr int kPiece = 16;

/// Room for completions. It is not initialised, because most calls find no completion.
struct Places {
  Places() noexcept {}  // NOLINT: on purpose
  union {
    transport::Completion completions[kPiece];
  };
};

}  // namespace

// Flattened: everything that the call does is inlined (docs/decisions/0018).
[[gnu::flatten]] int poll_cq(ibv_cq* cq, int count, ibv_wc* wc) {
  CqHandle& handle = handle_of<CqHandle>(cq);
  Places places;
  auto& completions = places.completions;
  int done = 0;
  while (done < count) {
    const auto wanted = static_cast<std::size_t>(std::min(count - done, kPiece));
    const std::size_t found = handle.object->poll({completions, wanted});
    for (std::size_t i = 0; i < found; ++i) show(completions[i], *handle.owner, wc[done++]);
    if (found < wanted) break;
  }
  if (done == 0) {
    handle.object->rest_after_vain_poll();
  } else {
    handle.object->share_after_poll();
  }
  return done;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  handle_of<CqHandle>(cq).object->arm(solicited_only != 0 ? transport::Arming::kSolicited
                                                          : transport::Arming::kAny);
  return 0;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  const Uncancelled uncancelled;
  constexpr std::uint64_t kReadable = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  constexpr std::uint32_t kKnownMask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  constexpr std::uint32_t kKnownFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((attributes->wc_flags & ~kReadable) != 0) return as_null<ibv_cq_ex>(Errc::kNotSupported);
  if ((attributes->comp_mask & ~kKnownMask) != 0) return as_null<ibv_cq_ex>(Errc::kNotSupported);
  const bool has_flags = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if (has_flags && (attributes->flags & ~kKnownFlags) != 0) {
    return as_null<ibv_cq_ex>(Errc::kNotSupported);
  }
  CqHandle* handle = create(context, attributes->cqe, attributes->cq_context, attributes->channel,
                            static_cast<int>(attributes->comp_vector));
  if (handle == nullptr) return nullptr;
  handle->is_single_threaded =
      has_flags && (attributes->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  constexpr std::uint64_t kStamps =
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  if ((attributes->wc_flags & kStamps) != 0) handle->object->keep_timestamps();
  fill_polling(handle->cq);
  return &handle->cq;
}

/// Moderation is a hint. This adapter delivers every completion at once.
int modify_cq(ibv_cq*, ibv_modify_cq_attr* attributes) {
  const bool is_known = (attributes->attr_mask & ~static_cast<unsigned>(IBV_CQ_ATTR_MODERATE)) == 0;
  return as_errno_value(is_known ? 0 : EINVAL);
}

}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const Uncancelled uncancelled;
  auto handle = std::make_unique<ChannelHandle>();
  if (auto opened = handle->pipe.open(); !opened) return as_null<ibv_comp_channel>(opened.error());
  handle->channel.context = context;
  handle->channel.fd = handle->pipe.descriptor();
  ++handle_of(context).objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->channel;
}

VB_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(channel)) return as_errno_value(EINVAL);
  ibv_context* context = channel->context;
  pthread_mutex_lock(&context->mutex);
  const bool in_use = channel->refcnt > 0;
  pthread_mutex_unlock(&context->mutex);
  if (in_use) return as_errno_value(EBUSY);
  discard(&handle_of<ChannelHandle>(channel), handle_of(context));
  return 0;
}

VB_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* user_context,
                                ibv_comp_channel* channel, int vector) {
  const Uncancelled uncancelled;
  if (cqe <= 0) return as_null<ibv_cq>(Errc::kInvalidArgument);
  CqHandle* handle =
      create(context, static_cast<std::uint32_t>(cqe), user_context, channel, vector);
  return handle == nullptr ? nullptr : handle->classic();
}

VB_EXPORT int ibv_resize_cq(ibv_cq* cq, int cqe) {
  const Uncancelled uncancelled;
  if (!is_intact(handle_of<CqHandle>(cq))) return as_errno_value(ENOENT);
  if (cqe <= 0) return as_errno_value(EINVAL);
  auto resized = handle_of<CqHandle>(cq).object->resize(static_cast<std::uint32_t>(cqe));
  if (resized) cq->cqe = cqe;
  return as_errno_value(resized);
}

VB_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(cq)) return as_errno_value(EINVAL);
  CqHandle& handle = handle_of<CqHandle>(cq);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  if (handle.object->has_users()) return as_errno_value(EBUSY);
  const auto tag = reinterpret_cast<std::uintptr_t>(&handle);
  if (handle.channel != nullptr) handle.channel->pipe.forget(tag);
  handle.owner->async.forget(tag);
  wait_for_acks(cq->mutex, cq->cond, cq->comp_events_completed, handle.completion_events);
  wait_for_acks(cq->mutex, cq->cond, cq->async_events_completed, handle.async_events);
  if (handle.channel != nullptr) {
    pthread_mutex_lock(&cq->context->mutex);
    --handle.channel->channel.refcnt;
    pthread_mutex_unlock(&cq->context->mutex);
  }
  discard(&handle, *handle.owner);
  return 0;
}

VB_EXPORT int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user_context) {
  // The event is counted before a thread that destroys the queue can read the count. That thread
  // then waits for the acknowledgement.
  return as_minus_one(
      handle_of<ChannelHandle>(channel).pipe.read([&](const device::PipeEvent& event) {
        auto* handle = reinterpret_cast<CqHandle*>(static_cast<std::uintptr_t>(event.subject));
        *cq = handle->classic();
        *user_context = (*cq)->cq_context;
        pthread_mutex_lock(&(*cq)->mutex);
        ++handle->completion_events;
        pthread_mutex_unlock(&(*cq)->mutex);
      }));
}

VB_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  pthread_mutex_lock(&cq->mutex);
  cq->comp_events_completed += count;
  pthread_cond_signal(&cq->cond);
  pthread_mutex_unlock(&cq->mutex);
}

}  // extern "C"
