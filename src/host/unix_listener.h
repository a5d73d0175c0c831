// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "host/unix_name.h"

namespace verbatim::host {

/// A UNIX socket at which other processes of this user connect, watched by an epoll of the caller.
///
/// When the process has no descriptor left, connections are refused: one that stayed in the queue
/// would keep waking the process. To accept and close it, the listener gives up a descriptor that
/// it holds in reserve. When that is not enough, the epoll does not watch the socket until the next
/// call of accept().
///
/// Thread: one at a time.
class UnixListener {
 public:
  UnixListener() noexcept = default;
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;
  ~UnixListener() { close(); }

  /// kAddressInUse when a process, this one included, has the name; kAccessDenied when this process
  /// has no RuntimeDirectory; kNoMemory when there is no descriptor.
  [[nodiscard]] Status open(const UnixName& name, int backlog, int epoll) noexcept;
  void close() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return socket_.is_open(); }
  [[nodiscard]] int descriptor() const noexcept { return socket_.number(); }
  /// The next connection, which the caller owns; -1 when there is none.
  [[nodiscard]] int accept() noexcept;

 private:
  void watch(bool wanted) noexcept;
  [[nodiscard]] bool refuse_one() noexcept;

  OwnDescriptor socket_;
  OwnDescriptor spare_;  // closed when the process has no other descriptor
  int epoll_ = -1;       // the caller's
  int process_ = 0;      // that has opened it: a forked child does not own the name
  bool is_watched_ = false;
};

}  // namespace verbatim::host
