// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/fork_mutex.h"
#include "base/mutex.h"

namespace verbatim::connect {

/// The lock of this layer. It guards all event queues, the tables of all devices, and the members
/// of ids that events change. One lock is enough, because events are rare. It is taken before the
/// lock of a device, never while one is held.
[[nodiscard]] ForkMutex& connections_mutex() noexcept;
/// Notified, with the lock held, when an event is acknowledged.
[[nodiscard]] Changes& events_acknowledged() noexcept;

}  // namespace verbatim::connect
