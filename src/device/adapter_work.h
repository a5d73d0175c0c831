// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/adapter_types.h"
#include "device/surroundings.h"
#include "loop/dispatch.h"
#include "loop/progress.h"

namespace verbatim {

extern template class loop::Dispatch<device::QueuePair, device::Surroundings>;
extern template class loop::Progress<device::QueuePair, device::AdapterDispatch,
                                     device::Surroundings>;

}  // namespace verbatim
