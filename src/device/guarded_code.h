// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::device {

/// Which code work inside of guarded() consists of: the library's own, and that of the C library,
/// or of a library that stands in for it, which copies octets for us. A fault in any other code is
/// not one of the work: a handler of a signal has interrupted the work, and the fault is the
/// handler's.
///
/// Once, before the first fault is asked about.
void learn_guarded_code() noexcept;

/// In the handler of a fault, whose third argument is `context`. True where it cannot be known.
[[nodiscard]] bool is_fault_of_guarded_code(const void* context) noexcept;

}  // namespace verbatim::device
