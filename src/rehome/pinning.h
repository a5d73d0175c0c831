// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace verbatim::rehome {

/// Is this what /proc/self/fd shows for a descriptor through which pages can be pinned for long?
/// The kernel then keeps the page that was there before a move, and no longer sees what the program
/// sees: io_uring, vfio, KVM, GPUs, RDMA adapters of the kernel, vhost.
[[nodiscard]] bool names_a_pinning_file(std::string_view link) noexcept;

/// Whether the kernel may have pinned pages of this process: it holds such a descriptor, a file
/// that is open with O_DIRECT, an AF_XDP socket, or a context of asynchronous I/O (io_setup(2)).
/// Also true when /proc/self cannot be read. It takes time with the number of descriptors and
/// mappings.
[[nodiscard]] bool may_have_pinned_pages() noexcept;

}  // namespace verbatim::rehome
