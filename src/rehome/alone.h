// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::rehome {

/// Whether the calling thread is the only thread of the program: all other threads of the process
/// belong to the library. Then no system call of the program is under way, and none can begin
/// before the caller returns. Threads of io_uring count as the program's.
[[nodiscard]] bool is_alone() noexcept;

/// One look, without waiting: false also if a thread of the library is about to be counted, or has
/// just ended.
[[nodiscard]] bool looks_alone() noexcept;

}  // namespace verbatim::rehome
