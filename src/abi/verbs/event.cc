// SPDX-License-Identifier: Apache-2.0
// ibv_get_async_event(3), ibv_ack_async_event(3), ibv_fork_init(3).
#include <infiniband/verbs.h>

#include "abi/border.h"
#include "abi/verbs/handles.h"
#include "base/uncancelled.h"
#include "device/async_event.h"
#include "device/region_homes.h"

namespace verbatim::abi {
namespace {

enum class Subject : std::uint8_t { kCq, kQp, kSrq, kPort };

Subject subject_of(std::uint32_t kind) noexcept {
  switch (device::AsyncEvent{kind}) {
    case device::AsyncEvent::kCqError:
      return Subject::kCq;
    case device::AsyncEvent::kSrqError:
    case device::AsyncEvent::kSrqLimitReached:
      return Subject::kSrq;
    case device::AsyncEvent::kDeviceFatal:
    case device::AsyncEvent::kPortActive:
    case device::AsyncEvent::kPortError:
    case device::AsyncEvent::kLidChange:
    case device::AsyncEvent::kPKeyChange:
    case device::AsyncEvent::kSmChange:
    case device::AsyncEvent::kClientReregister:
    case device::AsyncEvent::kGidChange:
      return Subject::kPort;
    case device::AsyncEvent::kQpFatal:
    case device::AsyncEvent::kQpRequestError:
    case device::AsyncEvent::kQpAccessError:
    case device::AsyncEvent::kCommunicationEstablished:
    case device::AsyncEvent::kSendQueueDrained:
    case device::AsyncEvent::kLastWqeReached:
      return Subject::kQp;
  }
  return Subject::kPort;
}

void count(pthread_mutex_t& mutex, std::uint32_t& counter) noexcept {
  pthread_mutex_lock(&mutex);
  ++counter;
  pthread_mutex_unlock(&mutex);
}

void count_and_wake(pthread_mutex_t& mutex, pthread_cond_t& changed, uint32_t& counter) noexcept {
  pthread_mutex_lock(&mutex);
  ++counter;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

/// Fills in the event of the program, and counts it before the object can be destroyed.
void hand_out(const device::PipeEvent& read, ibv_async_event& event) noexcept {
  event.event_type = static_cast<ibv_event_type>(read.kind);
  const auto subject = static_cast<std::uintptr_t>(read.subject);
  switch (subject_of(read.kind)) {
    case Subject::kCq: {
      auto* handle = reinterpret_cast<CqHandle*>(subject);
      event.element.cq = handle->classic();
      count(handle->classic()->mutex, handle->async_events);
      break;
    }
    case Subject::kQp: {
      auto* handle = reinterpret_cast<QpHandle*>(subject);
      event.element.qp = handle->classic();
      count(handle->classic()->mutex, handle->async_events);
      break;
    }
    case Subject::kSrq: {
      auto* handle = reinterpret_cast<SrqHandle*>(subject);
      event.element.srq = &handle->srq;
      count(handle->srq.mutex, handle->async_events);
      break;
    }
    case Subject::kPort:
      event.element.port_num = static_cast<int>(subject);
      break;
  }
}

std::atomic<bool> g_fork_initialized{false};

}  // namespace
}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return as_minus_one(handle_of(context).async.read(
      [&](const device::PipeEvent& read) { hand_out(read, *event); }));
}

VB_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  switch (subject_of(static_cast<std::uint32_t>(event->event_type))) {
    case Subject::kCq: {
      ibv_cq& cq = *event->element.cq;
      count_and_wake(cq.mutex, cq.cond, cq.async_events_completed);
      return;
    }
    case Subject::kQp: {
      ibv_qp& qp = *event->element.qp;
      count_and_wake(qp.mutex, qp.cond, qp.events_completed);
      return;
    }
    case Subject::kSrq: {
      ibv_srq& srq = *event->element.srq;
      count_and_wake(srq.mutex, srq.cond, srq.events_completed);
      return;
    }
    case Subject::kPort:
      return;
  }
}

/// Without this call children work as well: no page of the program is pinned, and children get
/// copies of memory that has moved. A program that makes the call expects that children have no
/// registered memory at all, as with hardware.
VB_EXPORT int ibv_fork_init(void) {
  const Uncancelled uncancelled;
  device::process_rehoming().set_dont_fork();
  g_fork_initialized = true;
  return 0;
}

VB_EXPORT ibv_fork_status ibv_is_fork_initialized(void) {
  return g_fork_initialized ? IBV_FORK_ENABLED : IBV_FORK_UNNEEDED;
}

VB_EXPORT int ibv_dontfork_range(void*, size_t) { return 0; }
VB_EXPORT int ibv_dofork_range(void*, size_t) { return 0; }

}  // extern "C"
