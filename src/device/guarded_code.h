// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace verbatim::device {

/// The code that runs inside guarded(): the library's own, and the functions of the C library, or
/// of a library that replaces them, which copy octets. A fault in any other code does not belong to
/// the work: the handler of a signal has interrupted the work, and has caused the fault.
///
/// To be called once, before the first is_fault_of_guarded_code().
void learn_guarded_code() noexcept;

/// Whether such code has caused the fault. For the handler of a fault, whose third argument is
/// `context`. True where it cannot be known.
[[nodiscard]] bool is_fault_of_guarded_code(const void* context) noexcept;

}  // namespace verbatim::device
