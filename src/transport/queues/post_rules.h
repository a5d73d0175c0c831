// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "transport/qp_attributes.h"
#include "transport/queues/send_queue.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// Checks whether a queue pair of this type takes this request (IBA Vol 1, 10.8.2.1 and 11.4.1.1).
/// kInvalidArgument for a request that no queue pair takes: then the post is refused. A request
/// that queue pairs of this type do not have is taken and completes in its turn with an error, as
/// on other adapters; the flaw is that error. The responder checks the alignment of atomics, the
/// queue its own limits.
[[nodiscard]] Expected<Flaw> check_post(QpType type, const SendRequest& request) noexcept;

}  // namespace verbatim::transport
