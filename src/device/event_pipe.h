// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/expected.h"

namespace verbatim::device {

/// Something that happened, on its way to whoever reads a completion channel or asks for
/// asynchronous events. Small enough for a pipe to move in one piece.
struct Event {
  std::uint32_t kind = 0;  // meaning is the reader's: an async event's type
  std::uint32_t padding = 0;
  std::uint64_t subject = 0;  // the object it is about, as the border knows it
};

/// A pipe that carries events: its reading end is what programs poll, epoll and make non-blocking.
/// Writing never blocks. Any thread may write; reading is the program's business.
class EventPipe {
 public:
  EventPipe() noexcept = default;
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;
  ~EventPipe();

  [[nodiscard]] Status open() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return ends_[0]; }

  /// False when the pipe is full: nobody has read thousands of events.
  bool write(const Event& event) noexcept;
  /// Waits as the descriptor's flags say. kTryAgain when it would block and must not.
  [[nodiscard]] Expected<Event> read() noexcept;
  /// Takes out every event about `subject`, which is going away. Not while another thread reads.
  void forget(std::uint64_t subject) noexcept;

 private:
  int ends_[2] = {-1, -1};  // read, write
};

}  // namespace verbatim::device
