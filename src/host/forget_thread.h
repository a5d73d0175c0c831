// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <thread>

namespace verbatim::host {

/// In a forked child, for a thread that exists in the parent only. The handle is emptied without a
/// call: join() would wait for ever, and detach() would use a thread that does not exist.
inline void forget_thread(std::thread& thread) noexcept { std::construct_at(&thread); }

}  // namespace verbatim::host
