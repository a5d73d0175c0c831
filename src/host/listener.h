// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "host/unix_name.h"

namespace verbatim::host {

/// A UNIX socket at which other processes of this user connect, told to an epoll of its caller.
///
/// A process that has no descriptor left refuses who connects: a connection that stayed in the
/// queue would keep waking it. It uses a descriptor that it holds in reserve. Where that is taken
/// from it as well, it listens again with the next call of accept().
///
/// Thread: one at a time.
class Listener {
 public:
  Listener() noexcept = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { close(); }

  /// kAddressInUse when a process, this one included, has the name; kAccessDenied when this process
  /// has no RuntimeDirectory; kNoMemory when there is no descriptor.
  [[nodiscard]] Status open(const UnixName& name, int backlog, int epoll) noexcept;
  void close() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return socket_.is_open(); }
  [[nodiscard]] int descriptor() const noexcept { return socket_.number(); }
  /// The next connection, which is the caller's; -1 when there is none.
  [[nodiscard]] int accept() noexcept;

 private:
  void watch(bool wanted) noexcept;
  [[nodiscard]] bool refuse_one() noexcept;

  OwnDescriptor socket_;
  OwnDescriptor spare_;  // given up where there is no other descriptor
  int epoll_ = -1;       // the caller's
  int process_ = 0;      // that has opened it: the name is not a forked child's
  bool is_watched_ = false;
};

}  // namespace verbatim::host
