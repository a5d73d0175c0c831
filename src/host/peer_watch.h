// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "host/unix_listener.h"

namespace verbatim::host {

/// Notices the end of each process of this user on this host, however it ends: through a connection
/// to each of them (the UNIX name `<slot>.alive`) that carries no data and that the kernel closes.
/// A process that starts later connects to those that exist.
///
/// Thread: one at a time.
class PeerWatch {
 public:
  PeerWatch() noexcept = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch() { close(); }

  /// Opens the name of `slot`, at which others connect. Its sockets are added to `epoll`, which is
  /// readable when there is something to take. On failure the ends of processes are not noticed;
  /// everything else works.
  [[nodiscard]] Status open(std::uint32_t slot, int epoll);
  void close() noexcept;

  /// Connects to the process in a slot, if the slot has one.
  void watch(std::uint32_t slot);
  /// The slots of the processes that are watched.
  [[nodiscard]] std::vector<std::uint32_t> living() const;
  /// The slots whose process has ended since the last call.
  [[nodiscard]] std::vector<std::uint32_t> take_deaths();

 private:
  struct Connection {
    OwnDescriptor descriptor;
    std::uint32_t slot = 0;
    bool is_named = false;  // its slot is known
  };
  void accept_all();
  void add(int descriptor) const noexcept;

  std::uint32_t slot_ = 0;
  int epoll_ = -1;  // the caller's
  UnixListener listener_;
  std::vector<Connection> connections_;
};

}  // namespace verbatim::host
