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

/// Something that happened, on its way to whoever reads a completion channel or asks for
/// asynchronous events.
struct Event {
  std::uint32_t kind = 0;     // meaning is the reader's: an async event's type
  std::uint64_t subject = 0;  // the object it is about, as the border knows it
};

/// Events that wait to be read, and a descriptor that is readable while there are any: programs
/// poll it, epoll it, level- or edge-triggered, and make it non-blocking. No event is lost, however
/// many there are. Writing never blocks. Any thread may write; reading is the program's business.
///
/// In a forked child it is dead: the events are the parent's.
class EventPipe {
 public:
  /// Unread events of one source, which keeps this for them. They take one place in the queue
  /// together, so the queue is not longer than there are sources. Belongs to the pipe's lock.
  struct Unread {
    std::uint64_t count = 0;
  };

  EventPipe() noexcept = default;
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;
  ~EventPipe() = default;

  [[nodiscard]] Status open() noexcept;
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }

  void write(const Event& event) noexcept { write(event, nullptr, Repeats::kByCommand); }
  /// An event of a source that may have many. forget() before the source goes.
  void write(const Event& event, Unread& unread) noexcept {
    write(event, &unread, Repeats::kByCommand);
  }
  /// An event that comes from outside, as often as it likes: of the same kind and subject the
  /// newest are kept where the program does not read them.
  void write_newest(const Event& event) noexcept { write(event, nullptr, Repeats::kByItself); }

  /// Waits as the descriptor's flags say. kTryAgain when it would block and must not, kInterrupted
  /// when a signal ends the wait as it would end a read. `taken` is called with the event before
  /// forget() can run: what the event points to is still there.
  ///
  /// A thread may be cancelled while it waits, and then only: it has no lock and no event.
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
  /// Takes out every event about `subject`, which is going away. Others may be reading.
  void forget(std::uint64_t subject) noexcept;

  /// Newest events kept of one kind and subject, by write_newest(), if there are more unread ones
  /// than this.
  static constexpr std::size_t kManyUnread = 1024;

 private:
  enum class Repeats : std::uint8_t { kByCommand, kByItself };
  struct Waiting {
    Event event;
    Unread* unread = nullptr;  // null: this is one event
  };

  void write(const Event& event, Unread* unread, Repeats repeats) noexcept;
  /// The next event if there is one; never blocks.
  [[nodiscard]] std::optional<Event> take() noexcept VB_REQUIRES(mutex_);
  /// Until there may be an event; kTryAgain at once when the descriptor must not block.
  [[nodiscard]] Status wait();
  [[nodiscard]] bool is_own() const noexcept;
  /// Makes the descriptor unreadable if there are no events.
  void update_readable() noexcept VB_REQUIRES(mutex_);

  Mutex mutex_;  // the descriptor, too, is readable while there are events
  std::deque<Waiting> waiting_ VB_GUARDED_BY(mutex_);
  host::OwnDescriptor descriptor_;  // an eventfd: what the program has
  host::OwnDescriptor bell_;  // the same file at another number: the program may close its own
  pid_t owner_ = 0;
  std::uint32_t generation_ = 0;  // of processes
};

}  // namespace verbatim::device
