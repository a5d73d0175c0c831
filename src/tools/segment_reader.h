// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace verbatim::tools {

/// Reads another process's segment by system calls. Pages that were never touched stay so; a
/// mapping would allocate each page that is read.
class SegmentReader {
 public:
  SegmentReader(int descriptor, std::uint64_t octets) noexcept
      : descriptor_(descriptor), octets_(octets) {}

  /// False when it does not lie inside the segment.
  template <typename T>
  [[nodiscard]] bool read(std::uint64_t at, T& into) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    return holds(at, 1, sizeof(T)) && fill(at, std::as_writable_bytes(std::span(&into, 1)));
  }

  /// Calls `visit(index, value)` for the values of an array that the owner has touched, and for
  /// some around them. False when the array does not lie inside the segment.
  template <typename T, typename Visit>
  [[nodiscard]] bool visit_array(std::uint64_t at, std::uint32_t count, Visit&& visit) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!holds(at, count, sizeof(T))) return false;
    std::array<T, 64> some;
    for (std::uint64_t index = 0; index < count;) {
      const off_t data =
          ::lseek(descriptor_, static_cast<off_t>(at + index * sizeof(T)), SEEK_DATA);
      if (data < 0) return true;  // nothing from here on
      const std::uint64_t skipped = (static_cast<std::uint64_t>(data) - at) / sizeof(T);
      index = skipped > index ? skipped : index;
      if (index >= count) return true;
      const auto number =
          static_cast<std::size_t>(count - index < some.size() ? count - index : some.size());
      if (!fill(at + index * sizeof(T), std::as_writable_bytes(std::span(some).first(number)))) {
        return false;
      }
      for (std::size_t i = 0; i < number; ++i)
        visit(static_cast<std::uint32_t>(index + i), some[i]);
      index += number;
    }
    return true;
  }

 private:
  [[nodiscard]] bool holds(std::uint64_t at, std::uint64_t count,
                           std::uint64_t size) const noexcept {
    return at <= octets_ && count <= (octets_ - at) / size;
  }
  [[nodiscard]] bool fill(std::uint64_t at, std::span<std::byte> into) const noexcept {
    return ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(at)) ==
           static_cast<ssize_t>(into.size());
  }

  int descriptor_;  // the caller's
  std::uint64_t octets_;
};

}  // namespace verbatim::tools
