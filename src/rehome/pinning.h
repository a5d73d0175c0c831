// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace verbatim::rehome {

/// Is this what /proc/self/fd shows for a descriptor through which pages can be pinned for long?
/// Whoever has pinned a page keeps the one that was there before it moved, and no longer sees what
/// the program sees: io_uring, vfio, KVM, GPUs, RDMA adapters of the kernel, vhost.
[[nodiscard]] bool names_a_pinning_file(std::string_view link) noexcept;

/// Does the process hold such a descriptor, or an AF_XDP socket? Also true when nobody can tell.
[[nodiscard]] bool holds_a_pinning_descriptor() noexcept;

}  // namespace verbatim::rehome
