// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

namespace verbatim::host {

/// A descriptor of the library in the descriptor table of a program. Programs close descriptors
/// that are not theirs (daemons do, and programs that are about to execute another one), and the
/// kernel gives the number to the next file that the program opens. So this class remembers which
/// open file it has, and closes the number only while it still refers to that file.
///
/// It moves the descriptor to a high number, which files that a program opens later seldom get.
///
/// Call is_still_own() before each read or write that is rare. Where calls are too frequent for
/// that, the high number reduces the risk, and a thread that notices closed descriptors (WakePipe)
/// stops the calls.
///
/// Thread: as an int. is_still_own() costs one or two system calls and leaves errno as it is.
class OwnDescriptor {
 public:
  OwnDescriptor() noexcept = default;
  /// Takes a descriptor, or the negative result of a failed call.
  explicit OwnDescriptor(int number) noexcept;
  /// The same without moving it: for a number that the program is given.
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
  /// False once the program has closed it, also if the number refers to another file now.
  [[nodiscard]] bool is_still_own() const noexcept;
  /// From now on the caller owns and closes it.
  [[nodiscard]] int release() noexcept;
  void close() noexcept;

  /// For a forked child whose objects may be half changed: closes the descriptors of all objects,
  /// except those that the program was given, and accesses no object. An object whose descriptor
  /// was closed here notices it by is_still_own().
  static void close_all_in_child() noexcept;

 private:
  enum class Number : std::uint8_t { kHidden, kGiven };  // hidden from, or given to, the program
  void remember(Number number) noexcept;
  void forget() noexcept;

  int number_ = -1;
  std::uint32_t holder_ = 0;  // identifies this object as the last one that got the number
  dev_t device_ = 0;
  ino_t inode_ = 0;  // 0: anonymous inode, which many files share; then the file has a mark
};

}  // namespace verbatim::host
