// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "rehome/range.h"
#include "rehome/system_call.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// A userfaultfd(2) of this process, in the mode that an ordinary user may have: faults of user
/// code can wait, faults inside of system calls cannot and would end them with EFAULT.
///
/// Any thread; the kernel serialises.
class Userfaults {
 public:
  Userfaults() noexcept = default;

  /// Asks for these UFFD_FEATURE_* bits, all of which must be there. kNoGuard when the system does
  /// not give them.
  [[nodiscard]] Moved open(std::uint64_t features) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  [[nodiscard]] int number() const noexcept { return descriptor_.number(); }
  /// Not a descriptor that the program has put in its place.
  void close() noexcept;
  /// Uses a descriptor that another object owns, until leave().
  void borrow(const Userfaults& owner) noexcept { descriptor_.reset(owner.number()); }
  void leave() noexcept { (void)descriptor_.release(); }

  /// Whole pages. `mode` is of UFFDIO_REGISTER_MODE_*. kUserfaultfd when the program has a
  /// userfaultfd of its own there, kRefused for memory of a kind that the kernel does not watch.
  [[nodiscard]] Moved watch(Range pages, std::uint64_t mode) const noexcept;
  void unwatch(Range pages) const noexcept;
  /// Whether an event can be read.
  [[nodiscard]] bool has_events() const noexcept;
  /// Whether a thread is in the middle of a call that changes watched mappings: from before the
  /// change until its event is read.
  [[nodiscard]] bool has_changes() const noexcept;
  /// Threads that wait for a page of the range look again.
  void wake(Range pages) const noexcept;

  /// Takes the private pages of a range away to other addresses (UFFDIO_MOVE, Linux 6.8); holes
  /// stay holes. `to` is watched for missing pages. The kernel refuses a page that is pinned with
  /// -EBUSY. Returns how many octets were moved from the front; `error` says why not all.
  [[nodiscard]] std::size_t move_pages(std::uintptr_t to, Range from, long& error) const noexcept;

  /// Fills missing pages with copies.
  [[nodiscard]] bool copy(std::uintptr_t to, std::uintptr_t from,
                          std::size_t octets) const noexcept;

 private:
  kernel::Descriptor descriptor_{-EBADF};
};

/// Whether the kernel has UFFDIO_MOVE.
[[nodiscard]] bool has_page_moves() noexcept;

}  // namespace verbatim::rehome
