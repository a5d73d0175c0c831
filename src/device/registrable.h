// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace verbatim::device {

/// Whether an adapter could pin this memory: every page belongs to a mapping that the program may
/// read, or, if `is_written`, write. The system calls by which peers reach memory do not check
/// this.
[[nodiscard]] bool is_registrable(const void* address, std::size_t octets,
                                  bool is_written) noexcept;

}  // namespace verbatim::device
