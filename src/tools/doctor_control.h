// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "wire/headers/ids.h"

namespace verbatim::tools {

/// The TCP connection between two doctors: lines of text, one question and its answer after the
/// other. The other end is not trusted: lines have a limit, and reading one has a deadline.
class ControlLine {
 public:
  static constexpr std::size_t kLineMax = 512;

  ControlLine() noexcept = default;
  explicit ControlLine(int descriptor) noexcept : descriptor_(descriptor) {}
  ControlLine(ControlLine&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), unread_(std::move(other.unread_)) {}
  ControlLine& operator=(ControlLine&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(unread_, other.unread_);
    return *this;
  }
  ControlLine(const ControlLine&) = delete;
  ControlLine& operator=(const ControlLine&) = delete;
  ~ControlLine();

  /// On failure `message` says why.
  [[nodiscard]] static std::optional<ControlLine> connect(const std::string& host,
                                                          std::uint16_t port, std::string& message);

  [[nodiscard]] bool send(const std::string& line) const;
  /// The next line without its end; nothing when the other end has closed or takes too long.
  [[nodiscard]] std::optional<std::string> receive(int patience_ms);
  /// Whether a whole line has been read already, which poll(2) does not show.
  [[nodiscard]] bool has_line() const noexcept { return unread_.find('\n') != std::string::npos; }

  [[nodiscard]] wire::Gid local_address() const noexcept;
  [[nodiscard]] wire::Gid remote_address() const noexcept;
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string unread_;
};

/// The value of `key=value` in a line of such words; empty when there is none.
[[nodiscard]] std::string word_in(std::string_view line, std::string_view key);
/// The same as a decimal number; nothing when it is no number.
[[nodiscard]] std::optional<std::uint64_t> number_in(std::string_view line, std::string_view key);

}  // namespace verbatim::tools
