// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/expected.h"
#include "rehome/mapping.h"
#include "rehome/range.h"
#include "rehome/why.h"

namespace verbatim::rehome {

/// The memory file into which ranges of this process move, and which peers map. One per process.
///
/// It is as large as the address space and sparse. The offset of a page follows from its address,
/// so neighbouring pages stay neighbours, mappings merge, and no code allocates offsets. Under a
/// file size limit it covers only the addresses around the first range. It is sealed against
/// shrinking.
/// Its owner serialises the calls; those that change nothing may run at any time once it is open.
class Arena {
 public:
  Arena() noexcept = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  /// Makes the file such that it covers `first`. Does nothing when it is open already.
  [[nodiscard]] Moved open(Range first) noexcept;
  /// In a forked child: forgets the arena, which remains the parent's.
  void leave() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  /// For peers. -1 before the first range has moved.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// kFileSizeLimit when the file does not cover these addresses, kRefused when the program has
  /// closed the descriptor of the file.
  [[nodiscard]] Moved admit(Range pages) const noexcept;

  /// Whether the descriptor still refers to the file. Programs close descriptors that are not
  /// theirs, and then open others with the same number.
  [[nodiscard]] bool is_intact() const noexcept { return is_file_of(descriptor_); }
  /// Whether any descriptor refers to the file.
  [[nodiscard]] bool is_file_of(int descriptor) const noexcept;

  [[nodiscard]] std::uint64_t offset_of(std::uintptr_t address) const noexcept {
    return address - base_;
  }
  [[nodiscard]] std::uintptr_t address_of(std::uint64_t offset) const noexcept {
    return base_ + offset;
  }
  [[nodiscard]] bool has_place_for(Range pages) const noexcept {
    return is_open() && pages.begin >= base_ && offset_of(pages.end) <= size_;
  }
  /// The offset of the last page, which no address of a program has.
  [[nodiscard]] std::uint64_t spare_offset(std::size_t page) const noexcept { return size_ - page; }
  /// Whether this is a mapping of the file.
  [[nodiscard]] bool is_mapped_by(const Mapping& mapping) const noexcept {
    return is_open() && mapping.inode == inode_ && mapping.major == major_ &&
           mapping.minor == minor_;
  }

 private:
  void close() noexcept;

  int descriptor_ = -1;
  std::uintptr_t base_ = 0;  // the address whose page is the first of the file
  std::uint64_t size_ = 0;   // octets
  std::uint64_t inode_ = 0;  // inode and device of the file, which identify its mappings
  std::uint32_t major_ = 0;  //
  std::uint32_t minor_ = 0;  //
};

/// Frees pages of the arena; they read as zeroes from then on.
void punch(int file, std::uint64_t offset, std::size_t octets) noexcept;

}  // namespace verbatim::rehome
