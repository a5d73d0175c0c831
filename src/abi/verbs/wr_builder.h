// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "abi/verbs/handles.h"

namespace verbatim::abi {

/// Whether a queue pair of this type can have every operation that the flags name.
[[nodiscard]] bool are_operations_known(ibv_qp_type type, std::uint64_t flags) noexcept;

/// Gives an extended queue pair its ibv_wr_* functions.
void fill_builders(QpHandle& handle) noexcept;

}  // namespace verbatim::abi
