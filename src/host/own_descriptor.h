// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

namespace verbatim::host {

/// A descriptor of the library's, in the descriptor table of a program. Programs close descriptors
/// that are not theirs (daemons do, and what is about to execute another program), and the system
/// gives the number to the next file that the program opens. So this class remembers which open
/// file it has, and closes the number only while it still means that file.
///
/// It moves the descriptor to a high number, where files that a program opens later seldom come.
///
/// Before a rare write, and before a rare read, ask is_still_own(). Where calls are too many for
/// that, the high number has to do, together with a thread that finds out that descriptors are gone
/// (WakePipe) and stops the calls.
///
/// Thread: as an int. is_still_own() costs one or two system calls and leaves errno as it is.
class OwnDescriptor {
 public:
  OwnDescriptor() noexcept = default;
  /// Takes a descriptor, or what a failed call returned.
  explicit OwnDescriptor(int number) noexcept;
  /// The same at the number that it has: the program is given the number.
  [[nodiscard]] static OwnDescriptor in_place(int number) noexcept;
  OwnDescriptor(OwnDescriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)),
        holder_(other.holder_),
        device_(other.device_),
        inode_(other.inode_) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    std::swap(holder_, other.holder_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
    if (this != &other) other.close();
    return *this;
  }
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;
  ~OwnDescriptor() { close(); }

  /// Negative: none.
  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  /// False once the program has closed it, also if the number means another file now.
  [[nodiscard]] bool is_still_own() const noexcept;
  /// The caller closes it.
  [[nodiscard]] int release() noexcept;
  void close() noexcept;

  /// In a forked child whose objects may be half changed: closes the descriptors of all objects,
  /// but for those whose number the program was given, and touches no object. An object whose
  /// descriptor this has closed finds that out by is_still_own().
  static void close_all_in_child() noexcept;

 private:
  enum class Number : std::uint8_t { kHidden, kGiven };  // to the program
  void remember(Number number) noexcept;
  void forget() noexcept;

  int number_ = -1;
  std::uint32_t holder_ = 0;  // which of these objects got the number last
  dev_t device_ = 0;
  ino_t inode_ = 0;  // 0: an anonymous one, which many files share; the file has a mark instead
};

}  // namespace verbatim::host
