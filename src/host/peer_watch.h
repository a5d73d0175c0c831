// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/expected.h"
#include "host/listener.h"
#include "host/own_descriptor.h"

namespace verbatim::host {

/// Notices when a process of this user on this host is gone, however it went: a connection to each
/// of them (the UNIX name `<slot>.alive`) that carries nothing and is closed by the kernel. A
/// process that comes later connects to those that are there.
///
/// One thread at a time.
class PeerWatch {
 public:
  PeerWatch() noexcept = default;
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  ~PeerWatch() { close(); }

  /// Is there for others as `slot`. Its sockets are added to `epoll`, which is readable when there
  /// is something to take. Failure means that deaths go unnoticed, no more.
  [[nodiscard]] Status open(std::uint32_t slot, int epoll);
  void close() noexcept;

  /// Connects to the process in a slot, if there is one.
  void watch(std::uint32_t slot);
  /// The slots of the processes that are watched.
  [[nodiscard]] std::vector<std::uint32_t> living() const;
  /// The slots that have lost their process since last asked.
  [[nodiscard]] std::vector<std::uint32_t> take_deaths();

 private:
  struct Connection {
    OwnDescriptor descriptor;
    std::uint32_t slot = 0;
    bool is_named = false;  // we know which slot it is
  };
  void accept_all();
  void add(int descriptor) const noexcept;

  std::uint32_t slot_ = 0;
  int epoll_ = -1;  // the caller's
  Listener listener_;
  std::vector<Connection> connections_;
};

}  // namespace verbatim::host
