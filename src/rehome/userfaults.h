// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "rehome/range.h"
#include "rehome/system_call.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// A userfaultfd(2) of this process, in the mode that an ordinary user may have: faults of user
/// code can wait; a fault inside a system call cannot, and ends the call with EFAULT.
///
/// Any thread; the kernel serialises.
class Userfaults {
 public:
  Userfaults() noexcept = default;

  /// Needs all of these UFFD_FEATURE_* bits. kNoGuard when the system does not offer them.
  [[nodiscard]] Moved open(std::uint64_t features) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return descriptor_.is_open(); }
  [[nodiscard]] int number() const noexcept { return descriptor_.number(); }
  /// Does not close a descriptor that the program has put in its place.
  void close() noexcept;
  /// Uses a descriptor that another object owns, until leave().
  void borrow(const Userfaults& owner) noexcept { descriptor_.reset(owner.number()); }
  void leave() noexcept { (void)descriptor_.release(); }

  /// Watches whole pages. `mode` is of UFFDIO_REGISTER_MODE_*. kUserfaultfd when the program has a
  /// userfaultfd of its own there, kRefused for a kind of memory that the kernel does not watch.
  [[nodiscard]] Moved watch(Range pages, std::uint64_t mode) const noexcept;
  /// False when the descriptor is not a userfaultfd any more, so that the pages stay watched.
  bool unwatch(Range pages) const noexcept;
  /// False when the program has closed the descriptor.
  [[nodiscard]] bool is_own() const noexcept;
  /// Whether an event can be read.
  [[nodiscard]] bool has_events() const noexcept;
  /// Whether a thread is inside a call that changes watched mappings: from before the change until
  /// its event is read.
  [[nodiscard]] bool has_changes() const noexcept;
  /// Wakes threads that wait for a page of the range; they access the page again.
  void wake(Range pages) const noexcept;

  /// Moves the private pages of a range to other addresses (UFFDIO_MOVE, Linux 6.8); holes stay
  /// holes. `to` must be watched for missing pages. The kernel refuses a pinned page with -EBUSY.
  /// Returns how many octets from the front were moved; `error` says why not all.
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
