// SPDX-License-Identifier: Apache-2.0
#include "host/arena_views.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "host/sealed_file.h"

namespace verbatim::host {

namespace {
// Parts are mapped in units of this size, so that neighbouring regions share a view.
constexpr std::uint64_t kGrain = std::uint64_t{64} << 20;

/// Most of a view is a hole of the peer's file. The kernel must not fill it with pages: core dumps
/// leave the view out, and after mlockall(MCL_FUTURE) the view is unlocked before it is accessible.
void* map_part(int file, std::uint64_t offset, std::uint64_t octets) noexcept {
  void* const at = ::mmap(nullptr, octets, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file,
                          static_cast<off_t>(offset));
  if (at == MAP_FAILED) return nullptr;
  (void)::madvise(at, octets, MADV_DONTFORK);  // a forked child does not use it
  (void)::madvise(at, octets, MADV_DONTDUMP);
  (void)::munlock(at, octets);
  if (::mprotect(at, octets, PROT_READ | PROT_WRITE) == 0) return at;
  ::munmap(at, octets);
  return nullptr;
}

}  // namespace

ArenaViews::~ArenaViews() {
  if (process_ != ::getpid()) return;
  for (const View& view : views_) ::munmap(view.at, view.octets);
}

void ArenaViews::open(int descriptor) noexcept {
  file_octets_ = octets_of_sealed(descriptor);
  descriptor_ = OwnDescriptor(descriptor);
  process_ = ::getpid();
}

ArenaViews::View ArenaViews::find(std::uint64_t offset, std::uint64_t octets) noexcept {
  const LockGuard lock(mutex_);
  for (const View& view : views_) {
    if (view.holds(offset, octets)) return view;
  }
  if (offset > file_octets_ || octets > file_octets_ - offset) return {};
  if (!descriptor_.is_still_own()) return {};  // the program has closed it
  const std::uint64_t first = offset / kGrain * kGrain;
  const std::uint64_t past =
      std::min((offset + octets + kGrain - 1) / kGrain * kGrain, file_octets_);
  void* mapping = map_part(descriptor_.number(), first, past - first);
  if (mapping == nullptr) return {};
  views_.push_back(
      {.first = first, .octets = past - first, .at = static_cast<std::byte*>(mapping)});
  return views_.back();
}

}  // namespace verbatim::host
