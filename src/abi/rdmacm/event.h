// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>

#include "abi/verbs/handles.h"
#include "connect/event.h"

namespace verbatim::abi {

/// What a pointer to an rdma_cm_event really points to: an event while the program has it. What the
/// peer has said is in `object`, and the program sees its private data there.
struct EventHandle {
  rdma_cm_event event{};
  std::array<std::byte, kSpareOctets> spare{};
  std::unique_ptr<connect::Event> object;
};

}  // namespace verbatim::abi
