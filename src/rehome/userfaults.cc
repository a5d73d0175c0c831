// SPDX-License-Identifier: Apache-2.0
#include "rehome/userfaults.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <atomic>

namespace verbatim::rehome {

namespace {

/// UFFDIO_MOVE of Linux 6.8, which older headers lack.
struct MoveRequest {
  static constexpr unsigned long kNumber = 0xc028'aa05;  // _IOWR(0xaa, 5, 40 octets)
  static constexpr std::uint64_t kAllowHoles = 2;
  static constexpr std::uint64_t kFeature = 1U << 16;

  std::uint64_t to = 0;
  std::uint64_t from = 0;
  std::uint64_t octets = 0;
  std::uint64_t mode = kAllowHoles;
  std::int64_t moved = 0;  // octets, or a negative errno value
};
static_assert(sizeof(MoveRequest) == 40);

}  // namespace

Moved Userfaults::open(std::uint64_t features) noexcept {
  descriptor_.reset(kernel::call(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (!descriptor_.is_open()) {
    const bool is_full = descriptor_.answer() == -EMFILE || descriptor_.answer() == -ENFILE;
    return is_full ? Why::kNoDescriptor : Why::kNoGuard;
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_API, &api) == 0) {
    descriptor_.keep();
    return Ok{};
  }
  descriptor_.close();
  return Why::kNoGuard;
}

bool Userfaults::is_own() const noexcept {
  uffdio_range nothing{};
  return kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_WAKE, &nothing) == -EINVAL;
}

void Userfaults::close() noexcept {
  if (!is_own()) (void)descriptor_.release();
  descriptor_.close();
}

Moved Userfaults::watch(Range pages, std::uint64_t mode) const noexcept {
  uffdio_register request{};
  request.range = {.start = pages.begin, .len = pages.octets()};
  request.mode = mode;
  const long answer = kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_REGISTER, &request);
  if (answer == 0) return Ok{};
  if (answer == -EBUSY) return Why::kUserfaultfd;
  return answer == -ENOMEM ? Why::kNoMemory : Why::kRefused;
}

bool Userfaults::unwatch(Range pages) const noexcept {
  uffdio_range request{.start = pages.begin, .len = pages.octets()};
  return kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_UNREGISTER, &request) == 0;
}

bool Userfaults::has_events() const noexcept {
  pollfd events{.fd = descriptor_.number(), .events = POLLIN, .revents = 0};
  const timespec none{};
  return kernel::call(SYS_ppoll, &events, 1, &none, 0, 0) > 0;
}

/// While mappings change, the kernel returns -EAGAIN before it checks the request. The request
/// contains no page.
bool Userfaults::has_changes() const noexcept {
  if (!is_open()) return false;
  uffdio_writeprotect request{};
  return kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_WRITEPROTECT, &request) == -EAGAIN;
}

void Userfaults::wake(Range pages) const noexcept {
  uffdio_range request{.start = pages.begin, .len = pages.octets()};
  (void)kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_WAKE, &request);
}

std::size_t Userfaults::move_pages(std::uintptr_t to, Range from, long& error) const noexcept {
  // For a pinned huge page, which it cannot split, the kernel also returns -EAGAIN.
  constexpr int kTriesMax = 64;
  std::size_t done = 0;
  int tries = 0;
  error = 0;
  while (done < from.octets()) {
    MoveRequest request{.to = to + done, .from = from.begin + done, .octets = from.octets() - done};
    const long answer =
        kernel::call(SYS_ioctl, descriptor_.number(), MoveRequest::kNumber, &request);
    if (request.moved > 0) {
      done += static_cast<std::size_t>(request.moved);
      tries = 0;
    }
    if (answer == 0) continue;
    // -EAGAIN: only a part was moved, or another thread held a page for a moment.
    if (answer == -EAGAIN && ++tries < kTriesMax) continue;
    error = answer == -EAGAIN ? -EBUSY : answer;
    break;
  }
  return done;
}

bool Userfaults::copy(std::uintptr_t to, std::uintptr_t from, std::size_t octets) const noexcept {
  uffdio_copy request{};
  request.dst = to;
  request.src = from;
  request.len = octets;
  return kernel::call(SYS_ioctl, descriptor_.number(), UFFDIO_COPY, &request) == 0;
}

bool has_page_moves() noexcept {
  enum Known : int { kNotYet, kNo, kYes };
  static constinit std::atomic<Known> known{kNotYet};
  if (known.load() == kNotYet) {
    Userfaults probe;
    known.store(probe.open(MoveRequest::kFeature).ok() ? kYes : kNo);
  }
  return known.load() == kYes;
}

}  // namespace verbatim::rehome
