// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include "connect/device.h"

namespace verbatim::abi {

/// The context of a device of rdma_cm, and the protection domain for programs that name none.
struct CmDevice {
  ibv_context* verbs = nullptr;
  ibv_pd* pd = nullptr;
};

[[nodiscard]] inline CmDevice& handle_of(const connect::Device& device) noexcept {
  return *static_cast<CmDevice*>(device.border());
}

}  // namespace verbatim::abi
