// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "abi/verbs/handles.h"

namespace verbatim::abi {

/// The way to what an address vector names. `entropy` spreads flows over source ports.
[[nodiscard]] Expected<transport::Path> path_of(ContextHandle& context, const ibv_ah_attr& attr,
                                                std::uint16_t entropy) noexcept;

}  // namespace verbatim::abi
