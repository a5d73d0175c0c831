// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::device {

class QueuePair;
class Surroundings;
template <typename Qp, typename Outside>
class Dispatch;
template <typename Qp, typename Packets, typename Outside>
class Progress;

/// Dispatch and progress as an adapter has them. They are compiled once, in adapter_work.cc.
using AdapterDispatch = Dispatch<QueuePair, Surroundings>;
using AdapterProgress = Progress<QueuePair, AdapterDispatch, Surroundings>;

}  // namespace verbatim::device
