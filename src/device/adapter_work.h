// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/adapter_types.h"
#include "device/dispatch.h"
#include "device/progress.h"
#include "device/surroundings.h"

namespace verbatim::device {

extern template class Dispatch<QueuePair, Surroundings>;
extern template class Progress<QueuePair, AdapterDispatch, Surroundings>;

}  // namespace verbatim::device
