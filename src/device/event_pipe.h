// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

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
  /// Waits as the descriptor's flags say. kTryAgain when it would block and must not,
  /// kInterrupted when a signal ends the wait as it would end a read. `taken` is
  /// called with the event before forget() can run: what the event points to is still there.
  template <typename Taken>
  [[nodiscard]] Status read(Taken&& taken) noexcept {
    for (;;) {
      {
        const std::lock_guard lock(reading_);
        if (auto event = take()) {
          taken(*event);
          return Ok{};
        }
      }
      if (auto waited = wait(); !waited) return waited;
    }
  }
  /// Takes out every event about `subject`, which is going away. Others may be reading.
  void forget(std::uint64_t subject) noexcept;

 private:
  /// The next event if there is one; never blocks, as all who read hold `reading_`.
  [[nodiscard]] std::optional<Event> take() noexcept;
  /// Until there may be an event; kTryAgain at once when the descriptor must not block.
  [[nodiscard]] Status wait() noexcept;

  std::mutex reading_;
  int ends_[2] = {-1, -1};  // read, write
  pid_t owner_ = 0;         // a forked child shares the pipe, but its events are not the child's
};

}  // namespace verbatim::device
