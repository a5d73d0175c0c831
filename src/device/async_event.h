// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/event_pipe.h"
#include "transport/queues/work.h"

namespace verbatim::device {

/// Events that belong to no work request (IBA Vol 1, 11.6.3); the values are those of the verbs.
enum class AsyncEvent : std::uint32_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommunicationEstablished = 4,
  kSendQueueDrained = 5,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortError = 10,
  kLidChange = 11,
  kPKeyChange = 12,
  kSmChange = 13,
  kSrqError = 14,
  kSrqLimitReached = 15,
  kLastWqeReached = 16,
  kClientReregister = 17,
  kGidChange = 18,
};

[[nodiscard]] constexpr AsyncEvent async_event_of(transport::QpEvent event) noexcept {
  switch (event) {
    case transport::QpEvent::kFatal:
      return AsyncEvent::kQpFatal;
    case transport::QpEvent::kRequestError:
      return AsyncEvent::kQpRequestError;
    case transport::QpEvent::kAccessError:
      return AsyncEvent::kQpAccessError;
    case transport::QpEvent::kCommunicationEstablished:
      return AsyncEvent::kCommunicationEstablished;
    case transport::QpEvent::kSendQueueDrained:
      return AsyncEvent::kSendQueueDrained;
    case transport::QpEvent::kLastWqeReached:
      return AsyncEvent::kLastWqeReached;
  }
  return AsyncEvent::kQpFatal;
}

/// Changes of a port have no limit; the other events follow from what the program does.
[[nodiscard]] constexpr bool is_of_port(AsyncEvent event) noexcept {
  switch (event) {
    case AsyncEvent::kPortActive:
    case AsyncEvent::kPortError:
    case AsyncEvent::kLidChange:
    case AsyncEvent::kPKeyChange:
    case AsyncEvent::kSmChange:
    case AsyncEvent::kClientReregister:
    case AsyncEvent::kGidChange:
      return true;
    default:
      return false;
  }
}

/// Reports an event to the program of a context. Nothing happens without a pipe.
inline void report(EventPipe* to, AsyncEvent event, std::uint64_t subject) noexcept {
  if (to == nullptr) return;
  const PipeEvent made{.kind = static_cast<std::uint32_t>(event), .subject = subject};
  is_of_port(event) ? to->write_newest(made) : to->write(made);
}

}  // namespace verbatim::device
