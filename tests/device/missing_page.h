// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim::testing {

/// A page of memory that is not there yet. A thread that touches it waits until it is filled. A
/// system call that needs it fails, as with a page that the adapter just moves.
class MissingPage {
 public:
  static constexpr std::uint32_t kOctets = 4096;

  bool open() {
    void* const at =
        ::mmap(nullptr, kOctets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    faults_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
    if (at == MAP_FAILED || faults_ < 0) return false;
    page_ = static_cast<std::byte*>(at);
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{.range = {.start = std::bit_cast<std::uintptr_t>(at), .len = kOctets},
                          .mode = UFFDIO_REGISTER_MODE_MISSING,
                          .ioctls = 0};
    return ::ioctl(faults_, UFFDIO_API, &api) == 0 &&
           ::ioctl(faults_, UFFDIO_REGISTER, &range) == 0;
  }
  [[nodiscard]] std::byte* at() const { return page_; }

  /// Returns when a thread waits for the page.
  [[nodiscard]] bool wait_for_touch() const {
    uffd_msg message{};
    return ::read(faults_, &message, sizeof message) == sizeof message;
  }
  void fill(std::byte value) const {
    alignas(kOctets) std::byte octets[kOctets];
    std::fill(std::begin(octets), std::end(octets), value);
    uffdio_copy copy{.dst = std::bit_cast<std::uintptr_t>(page_),
                     .src = std::bit_cast<std::uintptr_t>(&octets),
                     .len = kOctets,
                     .mode = 0,
                     .copy = 0};
    (void)::ioctl(faults_, UFFDIO_COPY, &copy);
  }

 private:
  int faults_ = -1;
  std::byte* page_ = nullptr;
};

}  // namespace verbatim::testing
