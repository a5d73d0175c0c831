// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "transport/qp_attributes.h"
#include "transport/work.h"

namespace verbatim::transport {

/// Whether a queue pair of this type may be given this request at all (IBA Vol 1, 10.8.2.1 and
/// 11.4.1.1): the operation exists there, and its lengths and addresses make sense. Queue limits
/// are the queue's own business. kInvalidArgument otherwise.
[[nodiscard]] Status check_post(QpType type, const SendRequest& request,
                                std::uint32_t path_mtu) noexcept;

}  // namespace verbatim::transport
