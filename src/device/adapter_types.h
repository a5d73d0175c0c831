// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::device {

class QueuePair;
class Surroundings;

}  // namespace verbatim::device

namespace verbatim::loop {

template <typename Qp, typename Outside>
class Dispatch;
template <typename Qp, typename Packets, typename Outside>
class Progress;

}  // namespace verbatim::loop

namespace verbatim::device {

/// Dispatch and progress as an adapter has them. They are compiled once, in adapter_work.cc.
using AdapterDispatch = loop::Dispatch<QueuePair, Surroundings>;
using AdapterProgress = loop::Progress<QueuePair, AdapterDispatch, Surroundings>;

}  // namespace verbatim::device
