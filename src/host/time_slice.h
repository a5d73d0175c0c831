// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/time.h"

namespace verbatim::host {

/// Asks the scheduler for time slices of the calling thread that are no longer than this: a thread
/// with shorter slices gets a processor earlier, and keeps it for a shorter time, but has its share
/// all the same. Threads of a real-time class are left alone. Systems that do not know the setting
/// (before Linux 6.12) refuse it, which is no error.
void limit_time_slice(Duration slice) noexcept;

}  // namespace verbatim::host
