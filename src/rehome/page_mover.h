// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "rehome/range.h"
#include "rehome/userfaults.h"
#include "rehome/vfork_runner.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// How pages are taken out of the program's memory.
enum class Taking : std::uint8_t {
  kBest,     // one by one where the kernel can (Linux 6.8), which refuses pinned pages
  kMapping,  // with their mapping, by mremap(2), as before Linux 6.8; pinned pages are not noticed
};

/// Moves private pages of this process into the arena. Their addresses stay.
///
/// The caller is the only thread of the program (is_alone()), and waits inside clone(2) while a
/// piece moves (VforkRunner). So no system call of the program, and no request of io_uring, is
/// under way that could find a page missing. Threads of the library that touch a missing page wait
/// for it. A piece has at most kPieceOctets. After a failure its pages are back, and no octet has
/// changed.
class PageMover {
 public:
  static constexpr std::size_t kPieceOctets = std::size_t{2} << 20;

  struct Job {
    Range pages;               // of one mapping
    std::uint64_t offset = 0;  // of the first page in the file
    int protection = 0;        // PROT_READ, PROT_WRITE
  };

  PageMover() noexcept = default;
  PageMover(const PageMover&) = delete;
  PageMover& operator=(const PageMover&) = delete;
  ~PageMover();

  /// `file` is the arena's.
  [[nodiscard]] Moved open(int file, Taking taking) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return faults_.is_open(); }
  void close() noexcept;
  /// In a forked child, which does not inherit the scratch mapping.
  void forget_in_child() noexcept;
  /// Whether the kernel refuses pages that are pinned.
  [[nodiscard]] bool notices_pins() const noexcept { return takes_pages_; }

  /// Moves the pages piece by piece, at most kPieceOctets each. The first `done` octets have moved,
  /// also after a failure. kPinned when the kernel has pinned a page.
  [[nodiscard]] Moved move(const Job& job, std::size_t& done) noexcept;

 private:
  [[nodiscard]] Moved move_piece_from_stack(const Job& job) noexcept;
  [[nodiscard]] Moved take_out(const Job& job, std::uintptr_t scratch) noexcept;
  [[nodiscard]] Moved take_out_pages(Range pages, std::uintptr_t scratch) noexcept;
  void put_back(const Job& job, std::uintptr_t scratch) noexcept;
  [[nodiscard]] Moved reserve_scratch() noexcept;
  [[nodiscard]] std::uintptr_t scratch_for(Range pages) const noexcept;

  int file_ = -1;
  bool takes_pages_ = false;
  Userfaults faults_;
  VforkRunner runner_;
  Range scratch_{};  // addresses of the pages of a piece while they are copied
};

/// Copies contents of the arena to private pages that no other thread uses; holes stay holes.
[[nodiscard]] Moved copy_out(int file, std::uint64_t offset, Range to) noexcept;

/// Replaces a shared mapping of the arena by a private one of the same pages, in one step that
/// other threads and their system calls do not notice. Each page is copied at its next store. From
/// before this step on, no other process may store to these pages of the arena.
[[nodiscard]] Moved make_private(int file, const PageMover::Job& job) noexcept;

/// Copies each page of a private mapping of the arena now, so that later stores of a peer to the
/// arena do not show.
[[nodiscard]] Moved copy_all_pages(const PageMover::Job& job) noexcept;

}  // namespace verbatim::rehome
