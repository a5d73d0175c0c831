// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbatim::direct {

/// Divides the pieces of a chunk into consecutive runs of octets.
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const iovec> pieces) noexcept : pieces_(pieces) {}

  /// The pieces of the next `octets`, which must exist. They are valid until the next call.
  [[nodiscard]] std::span<const iovec> take(std::uint64_t octets) noexcept {
    std::size_t count = 0;
    while (octets > 0 && count < taken_.size() && !pieces_.empty()) {
      const iovec& piece = pieces_.front();
      const auto length = std::min<std::uint64_t>(octets, piece.iov_len - offset_);
      taken_[count++] = {.iov_base = static_cast<std::byte*>(piece.iov_base) + offset_,
                         .iov_len = length};
      octets -= length;
      offset_ += length;
      if (offset_ == piece.iov_len) {
        pieces_ = pieces_.subspan(1);
        offset_ = 0;
      }
    }
    return {taken_.data(), count};
  }

 private:
  static constexpr std::size_t kTakenMax = 64;  // pieces that one run of octets may consist of

  std::span<const iovec> pieces_;
  std::size_t offset_ = 0;  // in the first piece
  std::array<iovec, kTakenMax> taken_;
};

}  // namespace verbatim::direct
