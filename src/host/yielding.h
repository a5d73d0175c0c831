// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::host {

/// Lets another thread have the processor, if one waits for it. Returns whether one has had it.
///
/// The scheduler may pass over the threads that wait, because they have had more than their share.
/// A call of sched_yield(2) costs the caller one time slice of its own share, so a later one may do
/// what the first did not: up to `calls` are made.
[[nodiscard]] bool yield_processor(int calls) noexcept;

}  // namespace verbatim::host
