// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "transport/qp_attributes.h"
#include "transport/queues/send_queue.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// Whether a queue pair of this type may be given this request (IBA Vol 1, 10.8.2.1 and 11.4.1.1).
/// kInvalidArgument for what has no meaning anywhere: then the post is refused. What makes no sense
/// on this queue pair is taken, and reported in its turn by an error completion, as adapters do:
/// that is the flaw. Whether the address of an atomic is aligned, the responder judges. Queue
/// limits are the queue's own business.
[[nodiscard]] Expected<Flaw> check_post(QpType type, const SendRequest& request) noexcept;

}  // namespace verbatim::transport
