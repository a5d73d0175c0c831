// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "rehome/arena.h"
#include "rehome/range.h"
#include "rehome/system_call.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// How other threads are held up while a piece of memory moves.
enum class Guarding : std::uint8_t {
  kBest,      // the best that the system allows
  kUserMode,  // what an ordinary user may: a system call that meets a moving page gets EFAULT
  kBlocking,  // as an ordinary user, without write protection: readers wait, too
};

/// Moves the pages of private anonymous memory into the arena and back, while other threads load
/// and store there: none of their stores is lost.
///
/// The pages of a piece are made such that a fault on them waits (userfaultfd(2)), copied, and
/// replaced by a mapping of the arena; then the waiting threads go on. Nobody reads the
/// userfaultfd. The program's own mapping is not given up but parked, without pages: it returns
/// with everything that the program has told the kernel about it, and merges with its neighbours as
/// before.
///
/// Where the system lets kernel code wait, everybody waits. An ordinary user cannot have that:
/// there the copy is made from write-protected pages, so that readers go on, and only a system call
/// of another thread that stores into the piece fails with EFAULT.
///
/// While a piece moves nothing is allocated and all signals of the thread are blocked: a handler
/// might touch the piece, and wait for ever. One thread at a time.
class PageMover {
 public:
  /// Pages whose program waits: as much as is copied in about a fifth of a millisecond.
  static constexpr std::size_t kPieceOctets = std::size_t{1} << 20;

  explicit PageMover(const Arena& arena) noexcept : file_(arena.descriptor()) {}

  [[nodiscard]] Moved open(Guarding guarding) noexcept;

  struct Job {
    Range range;                 // pages of one mapping
    std::uintptr_t parking = 0;  // reserved addresses for the mapping that is replaced
    std::uint64_t offset = 0;    // of the range in the arena
    int protection = 0;          // of the mapping
    bool dont_fork = false;      // children shall not inherit it
  };
  /// Moves piece by piece from the front, and shortens the job accordingly: on failure it is what
  /// has not moved. Of the parking place nothing is left then but what has moved uses.
  [[nodiscard]] Moved move_in(Job& job) noexcept;
  /// The parked mapping returns, with the arena's contents, and the arena's pages are freed. Moves
  /// piece by piece from the back, and shortens the job accordingly.
  [[nodiscard]] Moved move_back(Job& job) noexcept;

 private:
  [[nodiscard]] Moved move_piece_in(const Job& piece) noexcept;
  [[nodiscard]] Moved move_piece_back(const Job& piece) noexcept;
  [[nodiscard]] Moved replace_by_arena(const Job& piece, bool is_copied) noexcept;
  [[nodiscard]] Moved hold_stores(Range range) noexcept;
  [[nodiscard]] Moved hold_arena_stores(Range range) noexcept;
  [[nodiscard]] Moved register_faults(Range range, std::uint64_t mode) noexcept;
  [[nodiscard]] bool protect(Range range) noexcept;
  void copy_parked(const Job& piece) noexcept;
  void release_faults(Range range) noexcept;
  void wake(Range range) noexcept;

  // Everything is here, on the stack of the thread that moves: memory that moves is not touched.
  const int file_;                              // the arena's
  kernel::Descriptor faults_{-EBADF};           // the userfaultfd
  kernel::Descriptor pagemap_{-EBADF};          // /proc/self/pagemap
  bool copies_under_protection_ = false;        // private pages can be write-protected
  bool copies_arena_under_protection_ = false;  // the arena's, too
};

/// Copies contents of the arena's file to private pages that nobody else uses; holes stay holes.
[[nodiscard]] Moved copy_out(int file, std::uint64_t offset, Range to) noexcept;

/// Puts a parked mapping to `to`, in place of what is there. Before Linux 6.17 what moves at once
/// must be one mapping; so it is cut in halves where the kernel refuses.
[[nodiscard]] Moved return_parked(std::uintptr_t parking, Range to) noexcept;

/// The way back where no userfaultfd is to be had: a private mapping of the arena's pages, each of
/// which is copied at once. No store is lost, and nobody waits. But it stays a mapping of the
/// arena, so these pages of the arena are of no other use from now on.
[[nodiscard]] Moved make_private(int file, const PageMover::Job& job) noexcept;

}  // namespace verbatim::rehome
