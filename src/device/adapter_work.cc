// SPDX-License-Identifier: Apache-2.0
#include "device/adapter_work.h"

#include "device/queue_pair.h"

namespace verbatim::device {

template class Dispatch<QueuePair, Surroundings>;
template class Progress<QueuePair, AdapterDispatch, Surroundings>;

}  // namespace verbatim::device
