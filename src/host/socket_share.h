// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/mutex.h"
#include "base/time.h"
#include "host/lending_desk.h"
#include "host/library_thread.h"
#include "host/own_descriptor.h"
#include "host/share_message.h"
#include "host/wake_pipe.h"

namespace verbatim::host {

/// The sockets that the processes of one user hold in common, so that the end of a process closes
/// none of them (docs/decisions/0007). Each process holds a descriptor of every slot's socket at
/// the addresses that it uses, sends them to processes that ask, and takes the sockets of new
/// processes. It reads from none of them.
///
/// Order of calls: first, under the OpeningLock: want(), find_peers(), then ask_next_peer() and
/// take_answers() as long as a socket is missing, add() for each new socket; then serve(). From
/// then on a thread of this class answers, whatever the program does. A process that was stopped
/// handles the questions and sockets that came meanwhile when it goes on.
///
/// Messages of processes of other users are ignored. Those processes may ask at a LendingDesk, and
/// the lender decides (docs/decisions/0025).
///
/// Locks: none before serve(), while this object has no thread. From then on the calls of opening
/// need mutex(). The analysis of locks cannot express that and does not check these calls.
class SocketShare {
 public:
  SocketShare() noexcept = default;
  SocketShare(const SocketShare&) = delete;
  SocketShare& operator=(const SocketShare&) = delete;
  ~SocketShare() { close(); }

  // ---- While opening ----

  /// From now on sockets of this address are kept. The slot of `address` is not used.
  void want(const SocketLabel& address) VB_UNCHECKED_LOCKING;
  /// Connects to every process that serves, except to this one at `own`. Returns how many there
  /// are.
  std::size_t find_peers(std::optional<std::uint32_t> own = {}) VB_UNCHECKED_LOCKING;
  /// False when all peers have been asked.
  [[nodiscard]] bool ask_next_peer() noexcept VB_UNCHECKED_LOCKING;
  /// Waits until a peer has answered or has closed its connection, at most `patience`; false when
  /// no peer that was asked still owes an answer.
  bool take_answers(Duration patience) VB_UNCHECKED_LOCKING;
  /// Closes the sockets and the connections of an attempt.
  void start_over() noexcept VB_UNCHECKED_LOCKING;

  /// Takes the descriptor; serve() sends it to the peers.
  void add(const SocketLabel& label, int descriptor) VB_UNCHECKED_LOCKING;
  /// The descriptor, which this object keeps; -1 when there is none.
  [[nodiscard]] int find(const SocketLabel& label) const noexcept VB_UNCHECKED_LOCKING;
  /// How many sockets of this address are held.
  [[nodiscard]] std::size_t count_beside(const SocketLabel& address) const noexcept
      VB_UNCHECKED_LOCKING;

  /// A socket of one address.
  struct Holding {
    SocketLabel label;
    int descriptor = -1;
  };
  [[nodiscard]] std::vector<Holding> held_beside(const SocketLabel& address) const
      VB_UNCHECKED_LOCKING;

  /// Sets the function that decides on the questions of other users' processes. The thread of this
  /// class calls it with mutex() held. Call this before serve(); without it such processes cannot
  /// ask.
  void set_lender(LendingDesk::Lender lender) VB_UNCHECKED_LOCKING { lender_ = std::move(lender); }

  /// Opens the name of `slot`, at which other processes ask, and sends the added sockets to all
  /// peers. kNoMemory when the system gives no socket or no thread; kAddressInUse when the name is
  /// taken.
  [[nodiscard]] Status serve(std::uint32_t slot) VB_UNCHECKED_LOCKING;

  // ---- Afterwards ----

  /// The calls of opening may be made again for more addresses, under the OpeningLock and with
  /// mutex() held. Then this sends the added sockets to the peers.
  void serve_more() noexcept VB_UNCHECKED_LOCKING;

  void close() noexcept VB_UNCHECKED_LOCKING;
  /// Held while the process forks, so that the child finds the data consistent.
  [[nodiscard]] Mutex& mutex() noexcept VB_RETURNS_LOCK(mutex_) { return mutex_; }
  /// In a forked child, with the lock held: closes the child's descriptors. The thread does not
  /// exist there.
  void abandon_in_child() noexcept VB_UNCHECKED_LOCKING;

 private:
  struct Held {
    SocketLabel label;
    OwnDescriptor descriptor;
    bool is_news = false;  // not sent to the peers yet
  };
  struct Connection {
    OwnDescriptor descriptor;
    bool is_ours = false;       // this process connected; the other end closes it when it is done
    bool was_asked = false;     // a question was sent
    bool owes_answer = false;   // and was not answered yet
    bool has_question = false;  // waits for the answer of this process
    bool is_done = false;       // the peer has sent all that it wants to send
    std::vector<SocketLabel> question{};  // the addresses that the peer asked about
  };

  void run() noexcept;
  void serve_all() noexcept VB_REQUIRES(mutex_);
  void accept_all() noexcept VB_REQUIRES(mutex_);
  void read_all() VB_REQUIRES(mutex_);
  void read(Connection& connection) VB_REQUIRES(mutex_);
  void handle(Connection& connection, const ShareMessage& message) VB_REQUIRES(mutex_);
  void keep(const ShareMessage& message, std::span<const int> descriptors) VB_REQUIRES(mutex_);
  [[nodiscard]] bool lacks_any() const noexcept VB_REQUIRES(mutex_);
  [[nodiscard]] bool wants(const SocketLabel& label) const noexcept VB_REQUIRES(mutex_);
  void ask(Connection& connection) noexcept VB_REQUIRES(mutex_);
  [[nodiscard]] bool send_held(Connection& connection, bool news_only) noexcept VB_REQUIRES(mutex_);
  void drop_closed() noexcept VB_REQUIRES(mutex_);
  void announce() noexcept VB_REQUIRES(mutex_);
  void close_all() noexcept VB_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<SocketLabel> wanted_ VB_GUARDED_BY(mutex_);
  // The user that opened the port; the process may have given it up since.
  uid_t user_ VB_GUARDED_BY(mutex_) = 0;
  std::vector<Held> held_ VB_GUARDED_BY(mutex_);
  std::vector<Connection> connections_ VB_GUARDED_BY(mutex_);  // oldest first
  OwnDescriptor socket_ VB_GUARDED_BY(mutex_);
  bool is_closing_ VB_GUARDED_BY(mutex_) = false;  // the thread must end
  LendingDesk::Lender lender_ VB_GUARDED_BY(mutex_);
  LendingDesk desk_ VB_GUARDED_BY(mutex_);
  WakePipe bell_;                         // wakes the thread up
  bool is_short_of_descriptors_ = false;  // of the thread alone: it could not accept
  LibraryThread thread_;
};

}  // namespace verbatim::host
