// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "base/expected.h"
#include "base/mutex.h"
#include "base/uncancelled.h"
#include "host/own_descriptor.h"

namespace verbatim::device {

/// An event for the readers of a completion channel, or of the asynchronous events of a context.
struct PipeEvent {
  std::uint32_t kind = 0;     // the type of an asynchronous event
  std::uint64_t subject = 0;  // the object it is about, as the border knows it
};

/// Events that wait to be read, and a descriptor that is readable while there are any: programs
/// poll it, epoll it, level- or edge-triggered, and make it non-blocking. No event is lost. Writing
/// never blocks. Any thread may write; threads of the program read.
///
/// In a forked child it does nothing: the events belong to the parent.
class EventPipe {
 public:
  /// The number of unread events of one source, which stores it. All of them together are one entry
  /// of the queue, so the queue has at most one entry per source. Guarded by the lock of the pipe.
  struct Unread {
    std::uint64_t count = 0;
  };

  EventPipe() noexcept = default;
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;
  ~EventPipe() = default;

  [[nodiscard]] Status open() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

  void write(const PipeEvent& event) noexcept { write(event, nullptr, Repeats::kByCommand); }
  /// Writes an event of a source that may have many unread ones. forget() before the source is
  /// destroyed.
  void write(const PipeEvent& event, Unread& unread) noexcept {
    write(event, &unread, Repeats::kByCommand);
  }
  /// Writes an event that the program cannot limit by its commands. If the program does not read
  /// such events, only the newest ones of a kind and subject are kept.
  void write_newest(const PipeEvent& event) noexcept { write(event, nullptr, Repeats::kByItself); }

  /// Waits unless the descriptor is non-blocking: then the result is kTryAgain. kInterrupted when a
  /// signal ends the wait as it would end read(2). `taken` is called with the event before forget()
  /// can run, so the subject of the event still exists.
  ///
  /// A thread can be cancelled only while it waits: it holds no lock and no event then.
  template <typename Taken>
  [[nodiscard]] Status read(Taken&& taken) {
    for (;;) {
      {
        const Uncancelled uncancelled;
        if (!is_own()) return Errc::kNoDevice;
        const LockGuard lock(mutex_);
        if (auto event = take()) {
          taken(*event);
          return Ok{};
        }
      }
      if (auto waited = wait(); !waited) return waited;
    }
  }
  /// Removes every event about `subject`, which is about to be destroyed. Other threads may be
  /// reading.
  void forget(std::uint64_t subject) noexcept;

  /// Newest events kept of one kind and subject, by write_newest(), if there are more unread ones
  /// than this.
  static constexpr std::size_t kManyUnread = 1024;

 private:
  enum class Repeats : std::uint8_t { kByCommand, kByItself };
  struct Waiting {
    PipeEvent event;
    Unread* unread = nullptr;  // null: the entry is one event
  };

  void write(const PipeEvent& event, Unread* unread, Repeats repeats) noexcept;
  /// The next event if there is one; never blocks.
  [[nodiscard]] std::optional<PipeEvent> take() noexcept VB_REQUIRES(mutex_);
  /// Waits until there may be an event; kTryAgain at once when the descriptor is non-blocking.
  [[nodiscard]] Status wait();
  [[nodiscard]] bool is_own() const noexcept;
  /// Makes the descriptor unreadable if there are no events.
  void update_readable() noexcept VB_REQUIRES(mutex_);

  Mutex mutex_;  // also keeps the descriptor readable exactly while there are events
  std::deque<Waiting> waiting_ VB_GUARDED_BY(mutex_);
  host::OwnDescriptor descriptor_;  // an eventfd, which the program uses
  host::OwnDescriptor bell_;        // the same file: the program may close its own number
  pid_t owner_ = 0;
  std::uint32_t generation_ = 0;  // fork_generation() of the process that opened it
};

}  // namespace verbatim::device
