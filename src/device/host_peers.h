// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/expected.h"
#include "base/mutex.h"
#include "host/credentials.h"
#include "host/door.h"
#include "host/peer.h"

namespace verbatim::device {

/// The other processes of this user on this host, as an adapter knows them: the processes that it
/// has attached to (peers), and those that have attached to it.
///
/// Any thread may call attach(), under a ForkPause, but not with the adapter's lock held: the other
/// process may be waiting for this one. The engine's thread calls everything else.
class HostPeers {
 public:
  HostPeers() noexcept = default;
  HostPeers(const HostPeers&) = delete;
  HostPeers& operator=(const HostPeers&) = delete;
  ~HostPeers() { close(); }

  // ---- Before the engine's thread begins, and after it has ended ----

  /// Lets other processes attach. serve() is to be called when `epoll` finds something.
  [[nodiscard]] Status open(std::uint32_t slot, int epoll,
                            const host::Door::Offer& offer) noexcept VB_UNCHECKED_LOCKING;
  void close() noexcept VB_UNCHECKED_LOCKING;
  /// Called with each message of another process, and the connection for the answer.
  void set_handler(const host::Door::Handler& handler) VB_UNCHECKED_LOCKING;

  // ---- While the engine's thread runs ----

  /// The process in a slot. Null when there is none, when it cannot be attached to, or when the
  /// user of this process has changed since open().
  [[nodiscard]] std::shared_ptr<host::Peer> attach(std::uint32_t slot);

  /// Answers processes that attach, reads messages, and looks which processes have ended.
  struct News {
    bool has_deaths = false;                   // a peer has ended
    std::vector<std::uint32_t> attached_gone;  // the slots of attached processes that have ended
  };
  [[nodiscard]] News serve();
  /// Held by serve(), also while it calls the handler: taken before the adapter's lock. Held while
  /// the process forks.
  [[nodiscard]] Mutex& serving() noexcept VB_RETURNS_LOCK(serving_) { return serving_; }
  /// In a forked child: as close(), whichever thread of the parent used the peers.
  void abandon_in_child() noexcept;

 private:
  std::uint32_t slot_ = 0;
  host::Credentials own_{};  // when it was opened
  int epoll_ = -1;           // the engine's
  Mutex serving_;
  host::Door door_ VB_GUARDED_BY(serving_);
  Mutex mutex_;  // taken after the adapter's lock
  std::vector<std::shared_ptr<host::Peer>> peers_ VB_GUARDED_BY(mutex_);
  host::Door::Handler handler_ VB_GUARDED_BY(serving_);  // of messages
  std::vector<std::byte> message_ VB_GUARDED_BY(serving_);
};

}  // namespace verbatim::device
