// SPDX-License-Identifier: Apache-2.0
#include "device/adapter_work.h"

#include "device/queue_pair.h"

namespace verbatim {

template class loop::Dispatch<device::QueuePair, device::Surroundings>;
template class loop::Progress<device::QueuePair, device::AdapterDispatch, device::Surroundings>;

}  // namespace verbatim
