// SPDX-License-Identifier: Apache-2.0
#include "rehome/pinning.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "rehome/folder_reader.h"
#include "rehome/mapping_reader.h"
#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

/// Devices that transfer directly to or from the memory of a request are in the list, too: a disk
/// or tape gets such requests by ioctl(2), without O_DIRECT.
constexpr std::array<std::string_view, 24> kPinningFiles = {
    "anon_inode:[io_uring]",
    "anon_inode:[vfio",
    "anon_inode:kvm",
    "anon_inode:[iommufd",
    "/dev/vfio/",
    "/dev/iommu",
    "/dev/kvm",
    "/dev/nvidia",
    "/dev/kfd",
    "/dev/dri/",
    "/dev/infiniband/",
    "/dev/vhost",
    "/dev/gdrdrv",
    "/dev/habanalabs",
    "/dev/nvme",
    "/dev/ng",
    "/dev/sd",
    "/dev/sr",
    "/dev/sg",
    "/dev/bsg/",
    "/dev/st",
    "/dev/nst",
    "/dev/video",
    "/dev/fuse",
};

constexpr int kXdpFamily = 44;  // AF_XDP, which older headers lack

/// AF_XDP has buffers of the program, and AF_ALG computes into those of a receive.
bool is_pinning_socket(int descriptor) noexcept {
  int domain = 0;
  socklen_t octets = sizeof domain;
  return kernel::call(SYS_getsockopt, descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &octets) == 0 &&
         (domain == kXdpFamily || domain == AF_ALG);
}

bool is_direct(int descriptor) noexcept {
  const long flags = kernel::call(SYS_fcntl, descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

/// `name` is an entry of /proc/self/fd, also "." and "..".
bool pins(int folder, const char* name) noexcept {
  std::array<char, 64> link;  // longer ones are paths of ordinary files
  const long octets = kernel::call(SYS_readlinkat, folder, name, link.data(), link.size());
  if (octets <= 0) return false;
  const std::string_view target(link.data(), static_cast<std::size_t>(octets));
  if (names_a_pinning_file(target)) return true;
  int descriptor = -1;
  std::from_chars(name, name + std::strlen(name), descriptor);
  if (target.starts_with("socket:")) return is_pinning_socket(descriptor);
  // A pipe may have the flag as well; there it means packets.
  return !target.starts_with("pipe:") && is_direct(descriptor);
}

bool holds_a_pinning_descriptor() noexcept {
  const kernel::Descriptor folder(kernel::open_file("/proc/self/fd", O_RDONLY | O_DIRECTORY));
  if (!folder.is_open()) return true;
  bool found = false;
  const long answer = for_each_entry_of(folder.number(), [&](const char* name) {
    found = pins(folder.number(), name);
    return !found;
  });
  return found || answer != 0;
}

bool has_asynchronous_context() noexcept {
  bool found = false;
  const long answer = for_each_mapping(0, [&](const Mapping& mapping) {
    found = mapping.name == "/[aio]" || mapping.name.starts_with("/[aio]") ||
            mapping.name.starts_with("anon_inode:[io_uring]");
    return !found;
  });
  return found || answer != 0;
}

}  // namespace

bool names_a_pinning_file(std::string_view link) noexcept {
  return std::ranges::any_of(kPinningFiles,
                             [&](std::string_view prefix) { return link.starts_with(prefix); });
}

bool may_have_pinned_pages() noexcept {
  return holds_a_pinning_descriptor() || has_asynchronous_context();
}

}  // namespace verbatim::rehome
