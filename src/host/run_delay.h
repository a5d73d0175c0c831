// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/time.h"

namespace verbatim::host {

/// How long the calling thread has waited for a processor in its life, by the account of the system
/// (/proc/thread-self/schedstat). None where the system keeps no account, or does not show it. It
/// takes some microseconds. A thread cannot be cancelled here.
[[nodiscard]] std::optional<Duration> run_delay() noexcept;

}  // namespace verbatim::host
