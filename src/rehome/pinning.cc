// SPDX-License-Identifier: Apache-2.0
#include "rehome/pinning.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "rehome/system_call.h"

namespace verbatim::rehome {

namespace {

constexpr std::array<std::string_view, 14> kPinningFiles = {
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
};

constexpr int kXdpFamily = 44;  // AF_XDP, which older headers lack

bool is_xdp_socket(int descriptor) noexcept {
  int domain = 0;
  socklen_t octets = sizeof domain;
  return kernel::call(SYS_getsockopt, descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &octets) == 0 &&
         domain == kXdpFamily;
}

/// `name` is one of /proc/self/fd, "." and ".." included.
bool pins(int folder, const char* name) noexcept {
  std::array<char, 64> link;  // longer ones are paths of ordinary files
  const long octets = kernel::call(SYS_readlinkat, folder, name, link.data(), link.size());
  if (octets <= 0) return false;
  const std::string_view target(link.data(), static_cast<std::size_t>(octets));
  if (names_a_pinning_file(target)) return true;
  int descriptor = -1;
  std::from_chars(name, name + std::strlen(name), descriptor);
  return target.starts_with("socket:") && is_xdp_socket(descriptor);
}

}  // namespace

bool names_a_pinning_file(std::string_view link) noexcept {
  return std::ranges::any_of(kPinningFiles,
                             [&](std::string_view prefix) { return link.starts_with(prefix); });
}

bool holds_a_pinning_descriptor() noexcept {
  const kernel::Descriptor folder(kernel::open_file("/proc/self/fd", O_RDONLY | O_DIRECTORY));
  if (!folder.is_open()) return true;
  // linux_dirent64: inode 8, offset 8, octets of the entry 2, type 1, then the name.
  constexpr std::size_t kLengthAt = 16;
  constexpr std::size_t kNameAt = 19;
  alignas(8) std::array<char, 4096> entries;
  for (;;) {
    const long got = kernel::call(SYS_getdents64, folder.number(), entries.data(), entries.size());
    if (got <= 0) return got < 0;
    for (std::size_t at = 0; at + kNameAt < static_cast<std::size_t>(got);) {
      std::uint16_t length = 0;
      std::memcpy(&length, entries.data() + at + kLengthAt, sizeof length);
      if (pins(folder.number(), entries.data() + at + kNameAt)) return true;
      at += length;
    }
  }
}

}  // namespace verbatim::rehome
