// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace verbatim::host {

/// A descriptor that is closed with this object, without a point at which a thread can be
/// cancelled. For processes of our own, and for descriptors that a library holds during one call
/// only (host/own_descriptor.h is for longer).
class Descriptor {
 public:
  Descriptor() noexcept = default;
  /// Takes a descriptor, or the negative result of a failed call.
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    if (this != &other) other.close();
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }
  /// From now on the caller owns it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }
  void close() noexcept {
    const int open = release();
    if (open < 0) return;
#if defined(__SANITIZE_THREAD__)
    (void)::close(
        open);  // seen by the sanitizer, which else takes a reused number for the old file
#else
    (void)::syscall(SYS_close, open);
#endif
  }

 private:
  int number_ = -1;
};

}  // namespace verbatim::host
