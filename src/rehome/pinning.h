// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace verbatim::rehome {

/// Whether this link of /proc/self/fd names a file through which the kernel can pin pages for a
/// long time: io_uring, vfio, KVM, GPUs, RDMA adapters of the kernel, vhost. A pinned page stays
/// the one from before a move, so the kernel and the program would then use different pages.
[[nodiscard]] bool names_a_pinning_file(std::string_view link) noexcept;

/// Whether the kernel may have pinned pages of this process: the process has such a descriptor, a
/// file that is open with O_DIRECT, an AF_XDP socket, or a context of asynchronous I/O
/// (io_setup(2)). Also true when /proc/self cannot be read. The time grows with the number of
/// descriptors and mappings.
[[nodiscard]] bool may_have_pinned_pages() noexcept;

}  // namespace verbatim::rehome
