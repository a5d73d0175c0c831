// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>

#include "abi/verbs/handles.h"
#include "connect/event.h"

namespace verbatim::abi {

/// The object behind a pointer to an rdma_cm_event, until the program acknowledges the event. The
/// message of the peer is in `object`; the pointer to private data points there.
struct EventHandle {
  rdma_cm_event event{};
  std::array<std::byte, kSpareOctets> spare{};
  std::unique_ptr<connect::Event> object;
};

}  // namespace verbatim::abi
